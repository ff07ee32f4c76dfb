// How the products of a chip are measured, and sums of such measurements over seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/error_parts.hpp"
#include "imka/chip/chip_matrix.hpp"
#include "imka/metrics/summary.hpp"

namespace imka {

enum class Simulator { fast, literal };
template <>
struct EnumNames<Simulator> {
    static constexpr std::string_view what = "simulator";
    static constexpr std::string_view values[] = {"fast", "literal"};
};

}  // namespace imka

namespace imka::app {

struct Measurement {
    ErrorParts parts;
    double saturated = 0.0;  // share of conversions
    double clipped = 0.0;    // share of inputs
};

struct MeasurePlan {
    MatrixView<const float> inputs;
    MatrixView<const double> exact;
    std::uint64_t seed = 0;  // of the products' own noise
    Simulator simulator = Simulator::fast;
};
Measurement measure(const ChipMatrix& chip, const MeasurePlan& plan, const Exec& exec);

// The relative error alone.
double measure_error(const ChipMatrix& chip, const MeasurePlan& plan, const Exec& exec);

// One state of the chip over several seeds.
struct MeasuredState {
    std::string name;
    std::string note;
    std::vector<Measurement> values;  // one a seed
};
Summary over_seeds(const MeasuredState& state, double (*quantity)(const Measurement&));
// None where a measurement has none.
std::optional<Summary> over_seeds(const MeasuredState& state, std::optional<double> ErrorParts::*part);

}  // namespace imka::app
