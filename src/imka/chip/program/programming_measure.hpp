// Products as measured by a core during programming: random inputs, current conductances, their noise,
// converters. Fresh device noise is added to the charge of a phase as a normal number with the variance of
// the sum. Input slices, IR drop and polarity asymmetry are not modelled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// Inputs `first`, `first` + 1, ... as shares of the input range: normal numbers times `deviation`, rounded
// to converter steps. All cores of a chip get the same inputs.
Matrix<float> tuning_inputs(const ProgrammedRegion& region, double deviation, std::uint64_t first,
                            std::size_t count);

// Conductances during a batch of products; one row per output.
struct Crossbar {
    Matrix<float> plus_us;  // outputs x inputs
    Matrix<float> minus_us;
    Matrix<float> plus_variance;  // variance of the noise that is new in every product, uS²
    Matrix<float> minus_variance;
};
Crossbar crossbar_of(const ProgrammedRegion& region, const ReadTime& time);

// Signed sum of the counts of the four phases (or the counts of the one phase) divided by counts_per_us:
// the measured sum of inputs times conductances, uS. Uses the converters of the region but not its
// devices. Products are numbered from `first`, below 2^32. Same bits for any thread count.
Matrix<float> measure_products(const ProgrammedRegion& region, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first, const Exec& exec);

// Exact products of inputs and net conductances: the targets. net_us has one row per output.
Matrix<float> exact_currents(const Matrix<float>& inputs, const Matrix<float>& net_us, const Exec& exec);

// Scale and offset of each output by least squares: scale * measured + offset approximates `exact`.
std::vector<AffineColumn> fit_columns(const Matrix<float>& measured, const Matrix<float>& exact);

// |scale * measured + offset - exact| / |exact| over all products.
double relative_error(const Matrix<float>& measured, const Matrix<float>& exact,
                      std::span<const AffineColumn> columns);

}  // namespace imka
