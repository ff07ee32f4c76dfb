// Constants of the cost model, each with unit, interval and source, and published numbers (costs/costs.yaml).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace imka {

struct CostParameter {
    std::string name;
    double value = 0.0;
    double low = 0.0;  // ends of the interval; low <= value <= high
    double high = 0.0;
    std::string unit;
    std::string source;
};

// Another kind of machine, modelled by its peak throughput, its memory bandwidth and its power.
struct Machine {
    std::string name;
    double tops = 0.0;  // 10^12 operations per second
    double watts = 0.0;
    double static_watts = 0.0;  // part of watts; 0: unknown
    double area_mm2 = 0.0;
    double bytes_per_second = 0.0;
    double bytes_per_value = 0.0;
    std::string source;
};

// A number of the paper and how it is computed.
struct PublishedValue {
    std::string name;
    std::string where;
    std::string text;  // as printed; empty: not stated
    std::string unit;
    std::string how;
    std::string note;
};

// A measured operating point of NeuRRAM.
struct NeurramPoint {
    int output_bits = 0;
    int input_bits = 0;
    int phases = 1;  // 1: all bits of an input at once
    double tops = 0.0;
    double tops_per_watt = 0.0;
};

struct NeurramData {
    std::size_t cores = 0;
    std::size_t rows = 0;
    std::size_t cols = 0;
    int most_bits_of_one_phase = 0;
    std::vector<CostParameter> constants;
    std::vector<NeurramPoint> points;
};

struct CostData {
    std::vector<CostParameter> parameters;
    std::vector<CostParameter> technology;  // of chips that do not exist (deploy/technology.hpp)
    std::vector<Machine> machines;
    std::vector<PublishedValue> published;
    NeurramData neurram;
};

// Error{bad_config} with file and line for malformed text.
CostData parse_cost_data(std::string_view text, std::string_view where);
// The data included in the library.
CostData cost_data();

// Error{bad_config} if no parameter has this name.
const CostParameter& parameter(const std::vector<CostParameter>& list, std::string_view name);
// Area or node of a chip: NeuRRAM has its own, all other chips have those of hermes. None: unknown.
std::optional<CostParameter> chip_parameter(const CostData& data, std::string_view chip,
                                            std::string_view name);
const Machine& machine(const CostData& data, std::string_view name);

}  // namespace imka
