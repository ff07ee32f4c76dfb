// Pages as one HTML file: a static file whose markers are replaced by style, data and scripts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace imka::report {

struct PagePart {
    std::string_view marker;  // "@json@"
    std::string text;
    PagePart(std::string_view m, std::string_view t) : marker(m), text(t) {}
};
// The html with each marker replaced by its text. Parts are in the order of their markers.
std::string filled_page(std::string_view html, const std::vector<PagePart>& parts);

// JSON that is safe inside <script>: '<', '>', '&', U+2028 and U+2029 become equivalent escapes.
std::string escape_json_in_script(std::string_view json);

// A script that is safe inside <script>: splits text that would end the element. In a script such text can
// only occur in strings and comments.
std::string escape_script(std::string_view script);

}  // namespace imka::report
