// Compensation of drift: outputs are multiplied by what the array has lost since a reference read.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

enum class DriftCompensation {
    none,
    global,  // one factor for the whole array
    column,  // one for each output
};
template <>
struct EnumNames<DriftCompensation> {
    static constexpr std::string_view what = "drift compensation";
    static constexpr std::string_view values[] = {"none", "global", "column"};
};

// The factor of each column: mean |reference| / mean |now|, over the array or the column. Both are the
// outputs of the array for one input after the other, that is, differences of the two polarities'
// conductances. No factor exceeds 1e4; a column that was 0 at the reference has the factor 1.
std::vector<double> drift_compensation(DriftCompensation kind, MatrixView<const float> reference,
                                       MatrixView<const float> now);

}  // namespace imka
