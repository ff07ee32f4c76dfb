// Published results to compare with: means over seeds of the released runs, in FP32 and on the chip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka::report {

// What is drawn; spelled as in records.
enum class Quantity { accuracy, gram_error };

// One mean over seeds; accuracy and Gram error as fractions.
struct Published {
    std::string table;  // "ridge" or "liu"
    std::string dataset;
    std::string kernel;
    std::string sampler;
    std::string backend = "fp32";  // or "hermes", the chip
    double log_ratio = 0.0;
    std::int64_t m = 0;
    Quantity quantity = Quantity::accuracy;
    double mean = 0.0;
    double std = 0.0;  // with n - 1
    std::size_t n = 0;
};

// Text of experiments/published/<table>.csv. Error{bad_data} with the line.
std::vector<Published> parse_published(std::string_view csv, const std::string& table);

// All tables that are compiled in.
const std::vector<Published>& published_values();

}  // namespace imka::report

template <>
struct imka::EnumNames<imka::report::Quantity> {
    static constexpr std::string_view what = "quantity";
    static constexpr std::string_view values[] = {"accuracy", "gram_error"};
};
