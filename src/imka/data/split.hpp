// Random halves of a table.
#pragma once

#include <cstdint>
#include <vector>

namespace imka {

// Row numbers of the two parts.
struct Split {
    std::vector<std::uint32_t> train;
    std::vector<std::uint32_t> test;
};

// Halves of permutation(seed, Stream::split, rows): the first rows/2 are the training part, the others the
// test part. Error{bad_data} for fewer than 2 or more than 2^32 - 1 rows.
Split random_halves(std::uint64_t rows, std::uint64_t seed);

}  // namespace imka
