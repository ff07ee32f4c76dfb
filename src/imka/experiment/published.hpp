// Published results for comparison: means over seeds of the released runs, in FP32 and on the chip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// Names as in records.
enum class Quantity { accuracy, gram_error };
template <>
struct EnumNames<Quantity> {
    static constexpr std::string_view what = "quantity";
    static constexpr std::string_view values[] = {"accuracy", "gram_error"};
};

struct Published {
    std::string table;  // "ridge" or "liu"
    std::string dataset;
    std::string kernel;
    std::string sampler;
    std::string backend = "fp32";  // or "hermes", the chip
    double log_ratio = 0.0;
    std::int64_t m = 0;
    Quantity quantity = Quantity::accuracy;
    Summary value = {};  // fractions; with one value per seed if published
};

// Either form of CSV (docs/formats.md), told apart by the header:
// - one mean per row: dataset,kernel,sampler,backend,log_ratio,m,metric,mean,std,n
// - one seed per row: dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value. Rows with the
//   data set "attention" are skipped; "NAME-liu-replication" is the data set NAME of the table "liu".
// `where` names the text in messages. Error{bad_data} with the line.
std::vector<Published> parse_published(std::string_view csv, const std::string& where,
                                       const std::string& table = "ridge");
std::vector<Published> read_published(const std::filesystem::path& path);

// The built-in tables.
const std::vector<Published>& published_values();

}  // namespace imka
