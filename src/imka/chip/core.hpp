// One core: a crossbar of cells between input converters and output converters, and what is programmed into
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/converter/adc.hpp"
#include "imka/chip/converter/affine.hpp"
#include "imka/chip/converter/dac.hpp"
#include "imka/chip/converter/ir_drop.hpp"
#include "imka/chip/device/device_state.hpp"
#include "imka/chip/program/compensation.hpp"

namespace imka {

enum class ReadMode {
    four_phase,  // signs of input and weight apart: four charges, each converted alone
    one_phase,   // all at once: currents of opposite sign subtract on the wire
};
template <>
struct EnumNames<ReadMode> {
    static constexpr std::string_view what = "read mode";
    static constexpr std::string_view values[] = {"four_phase", "one_phase"};
};

// What one product takes beside its pulses (chip/cost). The defaults: nothing, and power unknown.
struct CostConfig {
    double phase_overhead_seconds = 0.0;    // after every pulse and conversion; >= 0
    double product_overhead_seconds = 0.0;  // once in a product; >= 0
    double one_phase_watts = 0.0;           // of a core that multiplies all the time; >= 0; 0: unknown
    double four_phase_watts = 0.0;
};

// The defaults are a core without errors.
struct CoreSpec {
    int rows = 256;  // inputs; 1 to 65536
    int cols = 256;  // outputs; 1 to 65536
    ReadMode read_mode = ReadMode::four_phase;
    DacConfig dac;
    AdcConfig adc;
    AffineConfig affine;
    IrDropConfig ir_drop;
    // One-phase reads apply either polarity of voltage. Read backwards, a device has its conductance times
    // 1 + asymmetry N(0,1), the same in every read; >= 0.
    double polarity_asymmetry = 0.0;
    CostConfig cost;
};
// Error{bad_config} naming the constant and its range, which the field list has (spec/chip_fields.cpp).
void validate(const CoreSpec& spec);

// Seed of a chip and number of a core on it: together they name every device and converter.
struct CoreIds {
    std::uint64_t seed = 0;
    std::uint32_t core = 0;
};

// The numbers of a core's devices of one polarity (0: positive, 1: negative). Error{bad_config} for a core
// whose devices or conversions would have numbers from 2^32 on.
DeviceIds device_ids(const CoreSpec& spec, const CoreIds& ids, std::uint64_t polarity);

// Which products these are: names the noise that is new in each. Product v of a batch has the number first +
// v, below 2^32.
struct ProductIds {
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
};

// Largest weight of each column in uS, and input range: what calibration chooses.
struct CoreMapping {
    std::vector<double> column_us;
    double input_range = 1.0;               // inputs beyond are clipped; > 0
    double output_step = 1.0;               // worth of one step of the output; > 0
    std::vector<double> column_steps = {};  // of each column, in output_step; empty: all 1
};

// A core that holds weights.
struct ProgrammedCore {
    CoreIds ids;
    CoreSpec spec;
    DeviceModel device;
    double input_range = 1.0;
    DeviceState plus;  // used rows x used columns
    DeviceState minus;
    std::vector<AdcColumn> adc;
    AffineCorrection affine;
    std::vector<double> compensation;  // factor of each output

    std::size_t used_rows() const { return plus.g_us.rows(); }
    std::size_t used_cols() const { return plus.g_us.cols(); }
};

// Maps the weights (inputs x outputs), programs both polarities and gives the affine correction its nominal
// values: the scale that makes outputs those of the weights if nothing were wrong, offset 0.
// Error{bad_config} where the weights need more rows or columns than a core has.
ProgrammedCore program_core(const CoreSpec& spec, const DeviceModel& device, MatrixView<const float> weights,
                            const CoreMapping& mapping, const CoreIds& ids);

// Sets the factors that bring outputs at `time` back to those right after programming.
void compensate_drift(ProgrammedCore& core, DriftCompensation kind, const ReadTime& time);

}  // namespace imka
