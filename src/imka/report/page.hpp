// The page: a static HTML file whose script renders the JSON document of a report.
#pragma once

#include <string>
#include <string_view>

namespace imka::report {

// One self-contained HTML file. Embeds `json`, the document of report_json, and `chart_js`, the source of
// Chart.js.
std::string render_page(std::string_view json, std::string_view chart_js);

// JSON that is safe inside <script>: '<', '>', '&', U+2028 and U+2029 become equivalent escapes.
std::string escape_json_in_script(std::string_view json);

// A script that is safe inside <script>: splits text that would end the element. In a script such text can
// only occur in strings and comments.
std::string escape_script(std::string_view script);

}  // namespace imka::report
