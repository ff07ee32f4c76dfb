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

// Halves of 0..rows-1 in the order of permutation(seed, Stream::split, rows): the first rows/2 train, the
// rest test. Error{bad_data} for less than 2 rows or more than 2^32 - 1.
Split random_halves(std::uint64_t rows, std::uint64_t seed);

}  // namespace imka
