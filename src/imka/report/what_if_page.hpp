// The page that compares chips for one model: error against energy and latency.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "imka/deploy/what_if.hpp"

namespace imka::report {

struct WhatIfPage {
    std::string name;     // of the model
    std::string chip;     // name of the preset that was varied
    std::string command;  // that wrote the page
    std::vector<WhatIfAxis> axes;
    std::vector<WhatIfPoint> points;
    std::vector<CostParameter> assumptions;  // for energies and areas; may be empty
};

// The page as one JSON document (docs/formats.md).
std::string what_if_json(const WhatIfPage& page);
inline constexpr std::string_view kWhatIfSchema = "imka-what-if-1";

// One self-contained HTML file that renders the document of what_if_json. chart_js: Chart.js 3.
std::string render_what_if_page(std::string_view json, std::string_view chart_js);

}  // namespace imka::report
