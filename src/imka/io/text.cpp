#include "imka/io/text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

namespace imka {
namespace {

// std::from_chars accepts no '+': drops one, unless another sign follows.
std::string_view without_plus(std::string_view text) {
    const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '+' && text[1] != '-';
    return plus ? text.substr(1) : text;
}

// from_chars reports overflow and underflow alike. Only numbers whose leading digit has a negative power of
// ten underflow.
bool is_below_one(std::string_view text) {
    const auto exponent_at = text.find_first_of("eE");
    const auto mantissa = text.substr(0, exponent_at);
    const auto point = mantissa.find('.');
    const auto digit = mantissa.find_first_of("123456789");
    if (digit == std::string_view::npos) return true;
    // Power of ten of the leading digit.
    auto power = point == std::string_view::npos || digit < point
                     ? static_cast<double>(std::min(point, mantissa.size()) - digit) - 1
                     : -static_cast<double>(digit - point);
    if (exponent_at != std::string_view::npos) {
        const auto exponent = without_plus(text.substr(exponent_at + 1));
        // An exponent too long for the type decides by its sign.
        std::int64_t value = 0;
        const auto [stop, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
        if (error != std::errc{}) return exponent.starts_with('-');
        power += static_cast<double>(value);
    }
    return power < 0;
}

template <class T>
NumberFault parse(std::string_view text, T& value) {
    text = without_plus(text);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::invalid_argument || stop != end) return NumberFault::not_a_number;
    if (error == std::errc::result_out_of_range) {
        if (!is_below_one(text)) return NumberFault::too_large;
        value = text.starts_with('-') ? -T{0} : T{0};
        return NumberFault::none;
    }
    return std::isfinite(value) ? NumberFault::none : NumberFault::not_finite;
}

// The first character of UTF-8 text and its length in bytes; -1 and 1 if the text does not begin with one.
std::pair<int, std::size_t> first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {static_cast<int>(first), 1};
    const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (bytes == 0 || text.size() < bytes) return {-1, 1};
    unsigned code = first & (0x7fU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0U) != 0x80) return {-1, 1};
        code = code << 6U | (byte(i) & 0x3fU);
    }
    constexpr std::array<unsigned, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kLeast.at(bytes) || code > 0x10ffff || surrogate) return {-1, 1};
    return {static_cast<int>(code), bytes};
}

bool is_control(char32_t c) {
    const bool direction =
        (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f;
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || direction;
}

}  // namespace

NumberFault parse_float(std::string_view text, float& value) {
    return parse(text, value);
}

std::optional<double> parse_double(std::string_view text) {
    double value = 0;
    if (parse(text, value) != NumberFault::none) return std::nullopt;
    return value;
}

std::string describe(NumberFault fault, std::string_view text) {
    switch (fault) {
        case NumberFault::not_finite:
            return in_quotes(text) + " is not a finite number";
        case NumberFault::too_large:
            return in_quotes(text) + " is beyond the range of 32-bit numbers";
        case NumberFault::not_a_number:
        case NumberFault::none:
            break;
    }
    return text.empty() ? "the value is missing" : in_quotes(text) + " is not a number";
}

void append_number(std::string& out, float value) {
    std::array<char, 32> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), result.ptr);
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos && trimmed(text) == text)
        return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    return out + '"';
}

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const auto [code, bytes] = first_character(text);
        if (code < 0 || is_control(static_cast<char32_t>(code))) {
            const auto shown =
                code < 0 ? static_cast<unsigned char>(text.front()) : static_cast<unsigned>(code);
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", shown);
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    return out;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

}  // namespace imka
