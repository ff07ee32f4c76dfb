// What this build is.
#pragma once

#include <string_view>

namespace imka {

struct BuildInfo {
    std::string_view version;
    std::string_view build_type;
    std::string_view sanitize;  // "" when none
    std::string_view compiler;
};

BuildInfo build_info();

}  // namespace imka
