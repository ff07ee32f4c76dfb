#include "imka/report/html_page.hpp"

#include <array>
#include <cctype>
#include <utility>

namespace imka::report {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
}

}  // namespace

std::string filled_page(std::string_view html, const std::vector<PagePart>& parts) {
    // From front to back, so that a marker inside an inserted part is not replaced.
    std::string page;
    for (const auto& [marker, text] : parts) {
        const auto at = html.find(marker);
        page.append(html.substr(0, at)).append(text);
        html.remove_prefix(at + marker.size());
    }
    return page.append(html);
}

std::string escape_json_in_script(std::string_view json) {
    std::string out(json);
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
        const auto next = script.substr(i + 1, 1);
        if (script[i] != '<' || (next != "/" && next != "!")) continue;
        std::string word;
        for (const char c : script.substr(i + 2, 6))
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (word.starts_with("script") || word.starts_with("--")) out += '\\';
    }
    return out;
}

}  // namespace imka::report
