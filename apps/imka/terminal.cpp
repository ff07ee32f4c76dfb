#include "terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "imka/io/text.hpp"

namespace imka::app {
namespace {

constexpr auto kQuiet = std::chrono::seconds(2);
constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLine = std::chrono::seconds(30);
constexpr std::size_t kBarWidth = 24;

// A message may quote a long argument or line of a file: keeps only the beginning and end of long lines.
std::string with_short_lines(std::string_view text) {
    constexpr std::size_t kMost = 1000;
    constexpr std::size_t kEnd = 200;
    std::string out;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        const bool more = line.size() < text.size();
        if (line.size() <= kMost)
            out += line;
        else
            out += fmt::format("{} ... {}", line.substr(0, kMost - kEnd), line.substr(line.size() - kEnd));
        if (more) out += '\n';
        text.remove_prefix(line.size() + (more ? 1 : 0));
    }
    return out;
}

void write_raw_error(const std::string& text) noexcept {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

thread_local CapturedText* captured = nullptr;

}  // namespace

CapturedText::CapturedText() {
    captured = this;
}

CapturedText::~CapturedText() {
    captured = nullptr;
}

void write_out(std::string_view text) {
    if (captured != nullptr) {
        captured->out += text;
        return;
    }
    const auto shown = printable(text);
    if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size())
        throw std::system_error(errno, std::generic_category(), "standard output");
}

void write_error(std::string_view text) noexcept {
    try {
        if (captured != nullptr) {
            captured->error += text;
            return;
        }
        write_raw_error(printable(with_short_lines(text)));
    } catch (const std::exception&) {  // no memory for the escaped text
    }
}

std::string count_text(std::size_t n, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string clock_text(double seconds) {
    const auto s = std::lround(seconds);
    if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    return fmt::format("{}:{:02}", s / 60, s % 60);
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::restart() {
    begin_ = shown_ = Clock::now();
    drawn_ = false;
}

double ProgressLine::seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
}

bool ProgressLine::due() const {
    const auto now = Clock::now();
    return now - begin_ >= kQuiet &&
           now - shown_ >= (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLine));
}

void ProgressLine::show(std::string_view label, std::optional<double> share, std::string_view text) {
    shown_ = Clock::now();
    drawn_ = true;
    std::string bar;
    if (terminal_ && share) {
        const auto filled = static_cast<std::size_t>(std::clamp(*share, 0.0, 1.0) * kBarWidth);
        bar = fmt::format("[{}{}] ", std::string(filled, '#'), std::string(kBarWidth - filled, '.'));
    }
    write_raw_error(fmt::format("{}{} {}{}{}", terminal_ ? "\r\x1b[2K" : "", printable(label), bar,
                                printable(text), terminal_ ? "" : "\n"));
}

void ProgressLine::clear() {
    if (!drawn_ || !terminal_) return;
    write_raw_error("\r\x1b[2K");
    drawn_ = false;
}

void TerminalProgress::start(std::string_view label, std::uint64_t total, std::uint64_t done) {
    label_ = label;
    total_ = total;
    before_ = done;
    line_.restart();
}

void TerminalProgress::update(std::uint64_t done) {
    if (!line_.due()) return;
    const double seconds = line_.seconds();
    const double rate = static_cast<double>(done - before_) / seconds;
    if (total_ == 0) {
        line_.show(label_, std::nullopt, fmt::format("{}, {:.3g}/s, {}", done, rate, clock_text(seconds)));
        return;
    }
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    auto text = fmt::format("{:3.0f} % ({}/{})", share * 100.0, done, total_);
    if (done > before_)
        text +=
            fmt::format(", {:.3g}/s, {} left", rate, clock_text(static_cast<double>(total_ - done) / rate));
    line_.show(label_, share, text);
}

void TerminalLog::note(std::string_view text) {
    print_error("note: {}\n", text);
}

std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace imka::app
