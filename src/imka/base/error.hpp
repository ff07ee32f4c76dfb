// Errors that a user or a file can cause. Our own bugs are assertions.
#pragma once

#include <stdexcept>
#include <string>

namespace imka {

enum class ErrorCode {
    bad_usage,     // an argument that no call may have
    bad_config,    // a setting out of range, an unknown key, settings that exclude each other
    bad_data,      // a file or table whose contents are wrong
    io,            // a file that cannot be read or written
    numeric,       // a computation that the data do not allow (a singular system)
    missing_part,  // an optional part or a data set that is not installed
    interrupted,   // the caller asked to stop
};

class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

// The message says what was wrong, where, and what would be right.
[[noreturn]] inline void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

}  // namespace imka
