// What the program prints: results on standard output, errors, notes and progress on standard error.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "imka/base/exec.hpp"

namespace imka::app {

// Both escape control characters, which may come from a file. write_out throws std::system_error if the text
// cannot be written; write_error ignores the failure.
void write_out(std::string_view text);
void write_error(std::string_view text) noexcept;

// While an object of this class exists, write_out and write_error append their text, unchanged, to its
// strings on this thread: for callers that are not a terminal.
class CapturedText {
public:
    CapturedText();
    ~CapturedText();
    CapturedText(const CapturedText&) = delete;
    CapturedText& operator=(const CapturedText&) = delete;
    std::string out;
    std::string error;
};

template <class... T>
void print_out(fmt::format_string<T...> format, T&&... values) {
    write_out(fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void print_error(fmt::format_string<T...> format, T&&... values) {
    write_error(fmt::format(format, std::forward<T>(values)...));
}

// Progress line on standard error: a bar that is redrawn on a terminal, otherwise one plain line every 30 s.
// Silent for the first two seconds.
class ProgressLine {
public:
    ProgressLine();
    ~ProgressLine() { clear(); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    void restart();
    bool due() const;  // enough time has passed for show()
    // share: fraction of the work done; nullopt if the total is unknown.
    void show(std::string_view label, std::optional<double> share, std::string_view text);
    void clear();
    double seconds() const;  // since restart()

private:
    using Clock = std::chrono::steady_clock;
    bool terminal_;
    bool drawn_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point shown_ = begin_;
};

// Shows amount done, rate and time left.
class TerminalProgress : public ProgressSink {
public:
    void start(std::string_view label, std::uint64_t total, std::uint64_t done) override;
    void update(std::uint64_t done) override;
    void finish() override { line_.clear(); }

private:
    ProgressLine line_;
    std::string label_;
    std::uint64_t total_ = 0;
    std::uint64_t before_ = 0;  // done before this work began; not part of the rate
};

class TerminalLog : public LogSink {
public:
    void note(std::string_view text) override;
};

// "1 core", "2 cores"
std::string count_text(std::size_t n, std::string_view one, std::string_view many);

// "1:05", "2:00:00"
std::string clock_text(double seconds);

// Width of UTF-8 text on a terminal, in columns (one per code point).
std::size_t display_width(std::string_view text);

}  // namespace imka::app
