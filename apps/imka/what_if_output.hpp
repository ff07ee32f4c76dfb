// What imka deploy --what-if prints and draws.
#pragma once

#include <filesystem>

#include "app.hpp"
#include "imka/report/what_if_page.hpp"

namespace imka::app {

// Files to write; empty: none.
struct WhatIfFiles {
    std::filesystem::path figure;
    std::filesystem::path page;
    std::filesystem::path chart_js;  // for the page
};

void show_what_if(const report::WhatIfPage& page, const WhatIfFiles& files, const Context& context);

}  // namespace imka::app
