// Progress and notes for a person on standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "imka/base/exec.hpp"

namespace imka::app {

// A bar with rate and time left on a terminal; plain lines every 30 s elsewhere. Silent for work under two
// seconds.
class TerminalProgress : public ProgressSink {
public:
    TerminalProgress();
    void start(std::string_view label, std::uint64_t total, std::uint64_t done) override;
    void update(std::uint64_t done) override;
    void finish() override;

private:
    using Clock = std::chrono::steady_clock;
    void draw(Clock::time_point now) const;

    bool terminal_;
    std::string label_;
    std::uint64_t total_ = 0;
    std::uint64_t before_ = 0;  // done before this work began: it does not count for the rate
    std::uint64_t done_ = 0;
    Clock::time_point begin_;
    Clock::time_point shown_;
    bool drawn_ = false;
};

class TerminalLog : public LogSink {
public:
    void note(std::string_view text) override;
};

// "1:05", "2:00:00"
std::string clock_text(double seconds);

// Columns that UTF-8 text takes on a terminal (every code point counted as one).
std::size_t display_width(std::string_view text);

}  // namespace imka::app
