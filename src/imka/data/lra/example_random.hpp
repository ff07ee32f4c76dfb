// Random numbers of one generated example: a function of (seed, task, part, example), so examples can be
// generated alone, in any order, with the same bits.
#pragma once

#include <cstdint>

#include "imka/base/random.hpp"
#include "imka/data/lra/task.hpp"

namespace imka {

class ExampleRandom {
public:
    struct Id {
        std::uint64_t seed = 0;
        LraTask task = LraTask::tiny;
        LraPart part = LraPart::train;
        std::uint32_t example = 0;
    };
    explicit ExampleRandom(const Id& id) : id_(id) {}

    // Uniform in 0..n - 1; the bias is below n / 2^32.
    std::uint32_t below(std::uint32_t n) {
        return static_cast<std::uint32_t>((std::uint64_t{word()} * n) >> 32U);
    }
    // Uniform on (0, 1).
    double uniform() { return (static_cast<double>(word()) + 0.5) * 0x1p-32; }

private:
    std::uint32_t word() {
        if (used_ == 4) {
            const auto task = static_cast<std::uint32_t>(id_.task);
            block_ = philox4x32_10(
                {blocks_++, id_.example, static_cast<std::uint32_t>(Stream::lra_example),
                 4 * task + static_cast<std::uint32_t>(id_.part)},
                {static_cast<std::uint32_t>(id_.seed), static_cast<std::uint32_t>(id_.seed >> 32U)});
            used_ = 0;
        }
        return block_[used_++];
    }

    Id id_;
    PhiloxBlock block_{};
    std::uint32_t blocks_ = 0;
    std::size_t used_ = 4;
};

}  // namespace imka
