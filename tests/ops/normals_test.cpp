// Bulk normals have the same bits as single ones on every instruction set.
#include "imka/ops/normals/normals.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/targets.hpp"

namespace imka {
namespace {

TEST(FillNormal, HasTheBitsOfTheReferenceOnEveryInstructionSet) {
    for_each_instruction_set([] {
        for (const std::uint64_t first :
             {0ULL, 1ULL, 3ULL, 4ULL, 1000003ULL, (1ULL << 34U) - 70ULL, 1ULL << 50U}) {
            for (const std::size_t size : {0U, 1U, 4U, 5U, 63U, 64U, 65U, 257U, 100000U}) {
                std::vector<float> expected(size + 1);  // never empty, so data() is not null
                std::vector<float> got(size + 1, 7.0F);
                fill_normal(42, Stream::test, first, std::span(expected).first(size));
                ops::fill_normal(42, Stream::test, first, std::span(got).first(size));
                ASSERT_EQ(0, std::memcmp(expected.data(), got.data(), size * sizeof(float)))
                    << first << " " << size;
                ASSERT_EQ(got[size], 7.0F) << "written beyond the end";
            }
        }
    });
}

}  // namespace
}  // namespace imka
