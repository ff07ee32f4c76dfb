#include "imka/report/html.hpp"

#include <array>
#include <cctype>
#include <utility>

namespace imka::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned byte_at(std::string_view text, std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

// Bytes of the UTF-8 character that begins at i; 0 where there is none (overlong and surrogate forms
// included).
std::size_t utf8_length(std::string_view text, std::size_t i) {
    const unsigned first = byte_at(text, i);
    if (first < 0x80U) return 1;
    const std::size_t length = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : 2;
    if (first < 0xC2U || first > 0xF4U) return 0;
    for (std::size_t k = 1; k < length; ++k) {
        if ((byte_at(text, i + k) & 0xC0U) != 0x80U) return 0;
    }
    const unsigned second = byte_at(text, i + 1);
    const bool out_of_range = (first == 0xE0U && second < 0xA0U) || (first == 0xEDU && second > 0x9FU) ||
                              (first == 0xF0U && second < 0x90U) || (first == 0xF4U && second > 0x8FU);
    return out_of_range ? 0 : length;
}

std::string_view entity(char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        default:
            return {};
    }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
}

}  // namespace

std::string escape_html(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        const auto length = utf8_length(text, i);
        const unsigned first = byte_at(text, i);
        const bool control = (first < 0x20U && first != '\n' && first != '\t') || first == 0x7FU;
        if (length == 0 || control) {
            out += kReplacement;
        } else if (const auto name = entity(text[i]); !name.empty()) {
            out += name;
        } else {
            out += text.substr(i, length);
        }
        i += length == 0 ? 1 : length;
    }
    return out;
}

std::string escape_json_in_script(std::string_view json) {
    std::string out(json);
    // Inside JSON these characters stand in strings only, where an escape means the same.
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kEscapes = {{
        {"<", "\\u003c"},
        {">", "\\u003e"},
        {"&", "\\u0026"},
        {"\xE2\x80\xA8", "\\u2028"},
        {"\xE2\x80\xA9", "\\u2029"},
    }};
    for (const auto& [from, to] : kEscapes) replace_all(out, from, to);
    return out;
}

std::string escape_script(std::string_view script) {
    std::string out;
    out.reserve(script.size());
    for (std::size_t i = 0; i < script.size(); ++i) {
        out += script[i];
        if (script[i] == '<' && (byte_at(script, i + 1) == '/' || byte_at(script, i + 1) == '!')) {
            std::string next;
            for (std::size_t k = i + 2; k < i + 8 && k < script.size(); ++k)
                next += static_cast<char>(std::tolower(static_cast<unsigned char>(script[k])));
            if (next.starts_with("script") || next.starts_with("--")) out += '\\';
        }
    }
    return out;
}

std::string quote_gnuplot(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20U || c == '`') {
            out += ' ';
        } else if (c == '\'') {
            out += "''";
        } else {
            out += c;
        }
    }
    return out + "'";
}

std::string slug(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
        if (plain) {
            out += lower;
        } else if (!out.empty() && out.back() != '-') {
            out += '-';
        }
    }
    while (!out.empty() && out.back() == '-') out.pop_back();
    return out.substr(0, 60);
}

}  // namespace imka::report
