#include "imka/chip/region.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/error.hpp"
#include "support/weight_scale.hpp"

namespace imka {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

Matrix<float> example() {
    Matrix<float> w(3, 3);
    const float values[] = {1.0F, -0.5F, 0.0F, -4.0F, 0.25F, 0.0F, 2.0F, 0.0F, 0.0F};
    std::copy(std::begin(values), std::end(values), w.values().begin());
    return w;
}

TEST(Mapping, ConductancesGiveTheWeightsBack) {
    const auto w = example();
    for (const auto scale : {WeightScale::layer, WeightScale::column}) {
        const auto mapped = map_weights(w.view(), column_conductances(w.view(), scale, 20.0));
        for (std::size_t r = 0; r < 3; ++r) {
            for (std::size_t c = 0; c < 3; ++c) {
                const double g = double{mapped.plus_us(r, c)} - mapped.minus_us(r, c);
                EXPECT_DOUBLE_EQ(g * mapped.weight_per_us[c], w(r, c));
                EXPECT_EQ(mapped.plus_us(r, c) * mapped.minus_us(r, c), 0.0F)
                    << "one polarity holds a weight";
            }
        }
    }
}

TEST(Mapping, TheLargestWeightGetsTheLargestConductance) {
    const auto w = example();
    EXPECT_THAT(column_conductances(w.view(), WeightScale::column, 20.0), ElementsAre(20.0, 20.0, 20.0));
    EXPECT_THAT(column_conductances(w.view(), WeightScale::layer, 20.0),
                ElementsAre(20.0, DoubleEq(20.0 * 0.5 / 4.0), 20.0));
    const auto mapped = map_weights(w.view(), std::vector<double>{20.0, 10.0, 5.0});
    EXPECT_EQ(mapped.minus_us(1, 0), 20.0F);
    EXPECT_EQ(mapped.minus_us(0, 1), 10.0F);
    EXPECT_EQ(mapped.plus_us(1, 1), 5.0F);
    EXPECT_THAT(mapped.weight_per_us, ElementsAre(0.2, 0.05, 0.0));
}

TEST(Mapping, RejectsInvalidWeightsAndConductances) {
    auto w = example();
    w(1, 2) = std::nanf("");
    EXPECT_THAT(error_of([&] { column_conductances(w.view(), WeightScale::layer, 20.0); }),
                HasSubstr("bad_data: weight of input 1, output 2: nan is not finite"));
    const auto good = example();
    EXPECT_THAT(error_of([&] {
                    map_weights(good.view(), std::vector<double>{20.0, 0.0, 1.0});
                }),
                HasSubstr("bad_config: conductance of column 1: 0 uS"));
}

}  // namespace
}  // namespace imka
