// Pipelines, mappings and chips for tests of schedules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {

// A product takes 2^-20 s, so that sums of times are exact.
inline constexpr double kProduct = 1.0 / (1 << 20);
inline ChipSpec exact_chip() {
    ChipSpec spec;
    spec.core.dac.step_seconds = 0.0;
    spec.core.cost.phase_overhead_seconds = 0.0;
    spec.core.cost.product_overhead_seconds = kProduct;
    return spec;
}

// Cores of each copy of each matrix: one tile of 10 rows per core.
using Places = std::vector<std::vector<std::vector<std::uint32_t>>>;
inline Mapping mapping_at(const Places& places) {
    Mapping mapping;
    for (std::uint32_t m = 0; m < places.size(); ++m) {
        const auto tiles = places[m][0].size();
        mapping.matrices.push_back(
            {.shape = {"m" + std::to_string(m), 10 * tiles, 10}, .replicas = places[m].size()});
        for (std::uint32_t copy = 0; copy < places[m].size(); ++copy) {
            for (std::size_t t = 0; t < tiles; ++t)
                mapping.regions.push_back(
                    {.matrix = m, .replica = copy, .core = places[m][copy][t], .tile = {10 * t, 10, 0, 10}});
        }
    }
    return mapping;
}

// A step per matrix; step k multiplies matrix k.
inline PipelineStep step_of(std::uint32_t matrix, std::size_t rows, std::vector<StepInput> inputs = {}) {
    return {.name = "s" + std::to_string(matrix),
            .op = "MatMul",
            .inputs = std::move(inputs),
            .matrices = {matrix},
            .rows = rows};
}

struct ScheduleProblem {
    Pipeline pipeline;
    Mapping mapping;
};

// Random numbers from 0 to n - 1.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : seed_(seed) {}
    std::size_t operator()(std::size_t n) { return uniform_int(seed_, Stream::test, index_++, n); }

private:
    std::uint64_t seed_;
    std::uint64_t index_ = 0;
};

// 2 to 9 steps with up to 2 inputs each, read in all ways, of 1 to 24 rows; matrices of 1 to 3 tiles, up to
// `copies` copies, on 4 cores; some steps are digital, and some share a matrix.
inline ScheduleProblem random_problem(std::uint64_t seed, std::size_t copies, bool digital) {
    Dice dice(seed);
    ScheduleProblem problem;
    Places places;
    const auto count = 2 + dice(8);
    for (std::uint32_t s = 0; s < count; ++s) {
        constexpr std::size_t kRows[] = {1, 4, 6, 12, 24};
        auto step = step_of(static_cast<std::uint32_t>(places.size()), kRows[dice(5)]);
        step.name = "s" + std::to_string(s);
        for (std::size_t k = 0; s > 0 && k < dice(3); ++k) {
            const auto reads = static_cast<Reads>(dice(3));
            step.inputs.push_back({dice(s), reads, reads == Reads::window ? dice(4) : 0});
        }
        if (digital && dice(3) == 0) {
            step.matrices.clear();
            step.work.additions = static_cast<double>(dice(3)) * 1e6;
        } else if (!places.empty() && dice(5) == 0) {
            step.matrices = {static_cast<std::uint32_t>(dice(places.size()))};
        } else {
            const auto tiles = 1 + dice(3);
            std::vector<std::vector<std::uint32_t>> matrix(1 + dice(copies));
            for (auto& copy : matrix) {
                const auto first = dice(4);
                for (std::size_t t = 0; t < tiles; ++t)
                    copy.push_back(static_cast<std::uint32_t>((first + t) % 4));
            }
            places.push_back(matrix);
        }
        problem.pipeline.steps.push_back(std::move(step));
    }
    problem.pipeline.chains = chains_of(problem.pipeline.steps);
    problem.mapping = mapping_at(places);
    return problem;
}

}  // namespace imka
