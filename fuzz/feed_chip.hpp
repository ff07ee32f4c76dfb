// What the fuzzer of chip files, and the test that repeats its seeds, do with arbitrary bytes: a file is
// refused with imka::Error or gives a chip that can be programmed and multiplies.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip_io.hpp"

namespace imka::fuzz {

// Whether the bytes are a chip.
inline bool feed_chip(std::string_view bytes) {
    try {
        const auto chip = parse_chip(bytes, "input");
        Matrix<float> weights(1, 1);
        weights(0, 0) = -0.5F;
        const CoreMapping mapping{.column_us = {0.5 * chip.device.g_max_us}};
        const auto core =
            program_core(chip.core, chip.device, weights.view(), mapping, {.seed = 1, .core = 0});
        literal_products(core, weights.view(), {.seconds = 10.0}, {.seed = 2, .first = 0});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
