// Products of a matrix on a chip: every core's part by the fast simulator, partial sums added.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/chip_matrix.hpp"
#include "imka/chip/simulate/fast.hpp"

namespace imka {

// A chip as it is at one time, folded for batches. An ideal matrix is there too: its products are digital.
struct ReadyChip {
    Tiling tiling;
    std::size_t replicas = 1;
    Replication replication = Replication::throughput;
    std::vector<FastCore> cores;  // none: ideal
    Matrix<float> ideal;          // outputs x inputs, where nothing is programmed
};
// Needs an ideal matrix or one that is programmed; Error{bad_usage} otherwise.
ReadyChip ready(const ChipMatrix& chip, const Exec& exec = {});

// Row v: outputs for row v of x. Bits depend on the chip, the vector, ids.seed and the number of the product
// alone. Error{bad_data} for inputs that are not finite or rows of another length.
Matrix<float> chip_products(const ReadyChip& chip, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec);

// How a chip does on inputs.
struct ProductErrors {
    double relative = 0.0;  // |y - exact| / |exact| over all outputs
    double snr_db = 0.0;
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;  // conversions that ended at max_count
    double clipped_inputs = 0.0;  // share of inputs beyond their core's range
};
ProductErrors product_errors(const ChipMatrix& chip, MatrixView<const float> x, const ProductIds& ids,
                             const Exec& exec);

}  // namespace imka
