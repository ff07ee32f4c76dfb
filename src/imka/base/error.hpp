// Errors caused by users or files. Bugs in imka are assertions.
#pragma once

#include <stdexcept>
#include <string>

namespace imka {

enum class ErrorCode {
    bad_usage,     // an invalid argument
    bad_config,    // a setting out of range, an unknown key, conflicting settings
    bad_data,      // a file or table with invalid contents
    io,            // a file that cannot be read or written
    numeric,       // a numerical failure (a singular system)
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

// The message says what was wrong, where, and what was expected.
[[noreturn]] inline void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

}  // namespace imka
