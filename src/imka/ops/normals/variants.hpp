// All variants of fill_normal that were compiled, the reference last. Every variant gives the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "imka/base/random.hpp"
#include "imka/cuda/memory.hpp"

namespace imka::ops {

struct NormalsVariant {
    std::string_view name;
    bool (*available)();  // on this machine
    void (*fill)(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out);
};
std::span<const NormalsVariant> normals_variants();

// Fills memory of GPU `gpu` and waits for it; first must be a multiple of 4. Error{missing_part} in a build
// without CUDA.
struct NormalsRange {
    std::uint64_t seed = 0;
    Stream stream = Stream::test;
    std::uint64_t first = 0;
};
void fill_normal_on_gpu(const NormalsRange& range, int gpu, cuda::Buffer<float>& out);

}  // namespace imka::ops
