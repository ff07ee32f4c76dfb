// What the fuzzer of files of programmed chips, and the test that repeats its seeds, do with arbitrary bytes:
// those that are safetensors get the checksum they need, and are then refused with imka::Error or give a chip
// that multiplies.
#pragma once

#include <string_view>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "imka/deploy/chip_matrix_io.hpp"

namespace imka::fuzz {

// Whether the bytes are a chip with a matrix on it.
inline bool feed_chip_matrix(std::string_view bytes) {
    try {
        auto file = read_safetensors(ByteStream("input", bytes, {.decompress = false}));
        file.metadata["sha256"] = checksum(file);
        auto chip = from_tensors(std::move(file));
        // Larger ones take the time of the fuzzer and reach nothing else.
        if (chip.weights.values().size() > 64 || chip.core_count() > 8) return false;
        if (chip.state == ChipState::mapped || chip.state == ChipState::calibrated)
            program(chip, {}, {.threads = 1});
        const Matrix<float> x(2, chip.weights.rows());
        chip_products(ready(chip), x.view(), {.seed = 1, .first = 0}, {.threads = 1});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
