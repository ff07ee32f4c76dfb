// A core: a crossbar of cells between input converters and output converters.
#pragma once

#include <string_view>

#include "imka/base/names.hpp"
#include "imka/chip/converter/adc.hpp"
#include "imka/chip/converter/affine.hpp"
#include "imka/chip/converter/dac.hpp"
#include "imka/chip/converter/ir_drop.hpp"

namespace imka {

enum class ReadMode {
    four_phase,  // one phase per sign of input and weight: four charges, each converted alone
    one_phase,   // all at once: currents of opposite sign subtract on the wire
};
template <>
struct EnumNames<ReadMode> {
    static constexpr std::string_view what = "read mode";
    static constexpr std::string_view values[] = {"four_phase", "one_phase"};
};

// Cost of one product in addition to its pulses (analyse/cost.hpp). Defaults: none, and power unknown.
struct CostConfig {
    double phase_overhead_seconds = 0.0;    // after every pulse and conversion; >= 0
    double product_overhead_seconds = 0.0;  // once per product; >= 0
    double one_phase_watts = 0.0;           // of a core that multiplies continuously; >= 0; 0: unknown
    double four_phase_watts = 0.0;
};

// Defaults: a core without errors.
struct CoreSpec {
    int rows = 256;  // inputs; 1 to 65536
    int cols = 256;  // outputs; 1 to 65536
    ReadMode read_mode = ReadMode::four_phase;
    DacConfig dac;
    AdcConfig adc;
    AffineConfig affine;
    IrDropConfig ir_drop;
    // One-phase reads apply voltages of both polarities. Read backwards, a device has its conductance
    // times 1 + asymmetry N(0,1), the same in every read; >= 0.
    double polarity_asymmetry = 0.0;
    CostConfig cost;
};
// Error{bad_config} naming the constant and its range, from the field list (spec/chip_fields.cpp).
void validate(const CoreSpec& spec);

}  // namespace imka
