// Standard normals in bulk: out[i] = normal(seed, stream, first + i) of base/random.hpp, bit for bit on every
// instruction set (only IEEE additions, multiplications and square roots, none of them fused).
//
// Domain: any arguments. Cost: one pass over out, in the widest vectors of the processor, selected at run
// time. The naive version is imka::fill_normal.
#pragma once

#include <cstdint>
#include <span>

#include "imka/base/random.hpp"

namespace imka::ops {

void fill_normal(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out);

}  // namespace imka::ops
