// Shared by the mapping file fuzzer and the test that replays its seeds: a file is rejected with imka::Error
// or gives a mapping that can be checked, drawn and written again.
#pragma once

#include <string_view>

#include "imka/base/error.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_file.hpp"

namespace imka::fuzz {

// Returns whether the bytes are a legal mapping.
inline bool feed_mapping(std::string_view bytes) {
    try {
        const CoreGrid grid;
        const auto mapping = parse_mapping(bytes, grid, "input");
        verify_legal(mapping);
        floor_plan_svg(mapping, "input");
        return parse_mapping(mapping_text(mapping), grid, "text") == mapping;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
