// The page: a static HTML file whose script renders the JSON document of a report.
#pragma once

#include <string>
#include <string_view>

namespace imka::report {

// One self-contained HTML file. `json` is the document of report_json, `chart_js` the text of Chart.js; both
// are written into the page.
std::string render_page(std::string_view json, std::string_view chart_js);

// JSON that is safe inside <script>: '<', '>', '&', U+2028 and U+2029 become escapes, which mean the same.
std::string escape_json_in_script(std::string_view json);

// A script that is safe inside <script>: breaks up what would end the element. In scripts this can only occur
// in strings and comments.
std::string escape_script(std::string_view script);

}  // namespace imka::report
