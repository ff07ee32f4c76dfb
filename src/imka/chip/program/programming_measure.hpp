// Products as a core measures them while it is being programmed: random inputs, conductances of the moment,
// their noise, converters. Fresh noise of devices is added to the charge of a phase, as a normal number with
// the variance of the sum; slices of inputs, IR drop and polarity asymmetry are left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// Inputs `first`, `first` + 1, ... as shares of the input range: normal numbers times `deviation`, rounded to
// the steps of the converter. Cores of one chip get the same.
Matrix<float> tuning_inputs(const ProgrammedRegion& region, double deviation, std::uint64_t first,
                            std::size_t count);

// What the crossbar holds during a batch of products; one row for each output.
struct Crossbar {
    Matrix<float> plus_us;  // outputs x inputs
    Matrix<float> minus_us;
    Matrix<float> plus_variance;  // of the noise that is new in every product, uS²
    Matrix<float> minus_variance;
};
Crossbar crossbar_of(const ProgrammedRegion& region, const ReadTime& time);

// Counts of the four phases added with their signs, or of the one phase, divided by counts_per_us: what the
// sum of inputs times conductances is measured to be, uS. Converters are those of the region; its devices are
// not looked at. The products are numbered from `first` on, below 2^32. Same bits for any thread count.
Matrix<float> measure_products(const ProgrammedRegion& region, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first, const Exec& exec);

// inputs times net conductances without any error: what is asked for; net_us has one row for each output.
Matrix<float> exact_currents(const Matrix<float>& inputs, const Matrix<float>& net_us, const Exec& exec);

// Scale and offset of each output by least squares: scale * measured + offset is nearest to `exact`.
std::vector<AffineColumn> fit_columns(const Matrix<float>& measured, const Matrix<float>& exact);

// |scale * measured + offset - exact| / |exact|, over all products together.
double relative_error(const Matrix<float>& measured, const Matrix<float>& exact,
                      std::span<const AffineColumn> columns);

}  // namespace imka
