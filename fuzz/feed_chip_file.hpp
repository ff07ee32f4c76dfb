// Shared by the fuzzer of chip files and the test that replays its seeds: bytes that are safetensors get a
// valid checksum, and are then rejected with imka::Error or give a chip that multiplies.
#pragma once

#include <string_view>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/chip_file.hpp"

namespace imka::fuzz {

// Larger ones only slow down the fuzzer and reach no other code.
inline bool is_small(const Plan& plan) {
    std::size_t weights = 0;
    for (const auto& m : plan.matrices) weights += m.weights.values().size();
    return weights <= 200 && plan.regions.size() <= 8;
}

// Whether the bytes are a chip, or a plan of one.
inline bool feed_chip_file(std::string_view bytes) {
    try {
        auto file = read_safetensors(ByteStream("input", bytes, {.decompress = false}));
        file.metadata["sha256"] = checksum(file);
        const bool programmed = file.f64.contains("time");
        const Exec one{.threads = 1};
        ProgrammedChip chip;
        if (programmed) {
            chip = chip_from_tensors(std::move(file));
            if (!is_small(chip.plan)) return false;
        } else {
            auto plan = plan_from_tensors(std::move(file));
            if (!is_small(plan)) return false;
            chip = program(std::move(plan), 1, {}, one);
        }
        FastEmulator emulator(chip, one);
        for (std::uint32_t m = 0; m < emulator.matrices(); ++m) {
            const Matrix<float> x(2, emulator.shape(m).inputs);
            (void)execute(emulator, m, x.view(), {.seed = 1, .first = 0}, one);
        }
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
