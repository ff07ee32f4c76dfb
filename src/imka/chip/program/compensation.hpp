// Drift compensation: scales outputs to undo the loss of the array since a reference read.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

enum class DriftCompensation {
    none,
    global,  // one factor per array
    column,  // one factor per output
};
template <>
struct EnumNames<DriftCompensation> {
    static constexpr std::string_view what = "drift compensation";
    static constexpr std::string_view values[] = {"none", "global", "column"};
};

// Factor of each column: mean |reference| / mean |now|, over the array or the column. Both arguments are
// outputs of the array for one input at a time, that is, differences of the two polarities' conductances.
// Factors are at most 1e4; a column that was 0 at the reference gets the factor 1.
std::vector<double> drift_compensation(DriftCompensation kind, MatrixView<const float> reference,
                                       MatrixView<const float> now);

}  // namespace imka
