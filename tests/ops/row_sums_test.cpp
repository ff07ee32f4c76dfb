// Sums of rows have the same bits as the plain loop on every instruction set.
#include "imka/ops/readout/row_sums.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "imka/base/random.hpp"
#include "support/row_sums_reference.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

TEST(RowSums, AreThoseOfTheReference) {
    Matrix<float> m(50, 130);
    fill_normal(1, Stream::test, 0, m.values());
    std::vector<std::uint32_t> rows;
    std::vector<double> factors;
    for (std::uint32_t r = 0; r < 50; r += 1 + r % 3) {
        rows.push_back(r);
        factors.push_back(double{normal(2, Stream::test, r)} / 127.0);
    }
    std::set<double> values;
    for_each_instruction_set([&] {
        for (const std::size_t cols : {0U, 1U, 3U, 8U, 15U, 32U, 33U, 64U, 71U, 129U}) {
            for (const std::size_t count : {std::size_t{0}, std::size_t{1}, rows.size()}) {
                std::vector<double> got(cols + 1, 7.0);
                std::vector<double> expected(cols + 1, 7.0);
                const auto part = std::as_const(m).view().slice_cols(1, cols);
                row_sums(std::span(rows).first(count), std::span(factors).first(count), part,
                         std::span(got).first(cols));
                reference::row_sums(std::span(rows).first(count), std::span(factors).first(count), part,
                                    std::span(expected).first(cols));
                ASSERT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(double)))
                    << cols << " " << count;
                values.insert(expected.begin(), expected.end());
            }
        }
    });
    EXPECT_GT(values.size(), 100U);
}

}  // namespace
}  // namespace imka::ops
