// Version and build options.
#pragma once

#include <string_view>

namespace imka {

struct BuildInfo {
    std::string_view version;
    std::string_view build_type;
    std::string_view sanitize;  // "" if none
    std::string_view compiler;
};

BuildInfo build_info();

}  // namespace imka
