// Shared by the chip file fuzzer and the test that replays its seeds: a file is rejected with imka::Error or
// gives a chip that can be programmed and multiplies.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka::fuzz {

// Returns whether the bytes are a valid chip file.
inline bool feed_chip(std::string_view bytes) {
    try {
        const auto chip = parse_chip(bytes, "input");
        Matrix<float> weights(1, 1);
        weights(0, 0) = -0.5F;
        const RegionScale scale{.column_us = {0.5 * chip.device.g_max_us}};
        const auto region = program_region(chip, weights.view(), scale, {.seed = 1, .core = 0});
        literal_products(region, weights.view(), {.seconds = 10.0}, {.seed = 2, .first = 0});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
