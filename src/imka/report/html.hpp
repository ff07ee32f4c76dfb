// Text that came from data, made safe for the place where it will stand.
#pragma once

#include <string>
#include <string_view>

namespace imka::report {

// For elements and quoted attributes. Bytes that are no UTF-8 and control characters become U+FFFD.
std::string escape_html(std::string_view text);

// JSON that may stand inside <script>: no '<', '>', '&', U+2028 or U+2029 is left as it is.
std::string escape_json_in_script(std::string_view json);

// A script of others that may stand inside <script>: what would end the element is broken up, in strings and
// comments the only places where it can occur.
std::string escape_script(std::string_view script);

// Text between single quotes of a gnuplot script, on one line.
std::string quote_gnuplot(std::string_view text);

// Lower-case letters, digits and '-': for file names and anchors.
std::string slug(std::string_view text);

}  // namespace imka::report
