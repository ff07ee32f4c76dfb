#include "terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace imka::app {
namespace {

constexpr auto kQuiet = std::chrono::seconds(2);
constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLine = std::chrono::seconds(30);

}  // namespace

std::string clock_text(double seconds) {
    const auto s = std::lround(seconds);
    if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    return fmt::format("{}:{:02}", s / 60, s % 60);
}

TerminalProgress::TerminalProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void TerminalProgress::start(std::string_view label, std::uint64_t total, std::uint64_t done) {
    label_ = label;
    total_ = total;
    before_ = done_ = done;
    begin_ = shown_ = Clock::now();
    drawn_ = false;
}

void TerminalProgress::update(std::uint64_t done) {
    done_ = done;
    const auto now = Clock::now();
    if (now - begin_ < kQuiet ||
        now - shown_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLine)))
        return;
    shown_ = now;
    drawn_ = true;
    draw(now);
}

void TerminalProgress::draw(Clock::time_point now) const {
    const double elapsed = std::chrono::duration<double>(now - begin_).count();
    const double rate = static_cast<double>(done_ - before_) / elapsed;
    std::string text = label_;
    if (total_ > 0) {
        const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
        const auto filled = static_cast<std::size_t>(share * 24.0);
        if (terminal_)
            text += fmt::format(" [{}{}]", std::string(filled, '#'), std::string(24 - filled, '.'));
        text += fmt::format(" {:3.0f} % ({}/{})", share * 100.0, done_, total_);
        if (done_ > before_) {
            text += fmt::format(", {:.3g}/s, {} left", rate,
                                clock_text(static_cast<double>(total_ - done_) / rate));
        }
    } else {
        text += fmt::format(" {}, {:.3g}/s, {}", done_, rate, clock_text(elapsed));
    }
    if (terminal_) {
        fmt::print(stderr, "\r\x1b[2K{}", text);
    } else {
        fmt::print(stderr, "{}\n", text);
    }
    std::fflush(stderr);
}

void TerminalProgress::finish() {
    if (drawn_ && terminal_) {
        fmt::print(stderr, "\r\x1b[2K");
        std::fflush(stderr);
    }
}

void TerminalLog::note(std::string_view text) {
    fmt::print(stderr, "note: {}\n", text);
}

std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace imka::app
