#include "imka/experiment/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/omega/omega.hpp"

namespace imka {
namespace embedded {
extern const std::string_view published_ridge;
extern const std::string_view published_liu;
}  // namespace embedded

namespace {

constexpr std::string_view kMeans = "dataset,kernel,sampler,backend,log_ratio,m,metric,mean,std,n";
constexpr std::string_view kSeeds = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value";
constexpr std::string_view kLiuSuffix = "-liu-replication";
constexpr std::size_t kLargestFile = std::size_t{64} << 20U;

std::vector<std::string_view> split(std::string_view line, char mark) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= line.size();) {
        const auto end = std::min(line.find(mark, begin), line.size());
        parts.push_back(line.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

template <class T>
T number(std::string_view text, const std::string& place) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = error == std::errc{} && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
    if (!good) fail(ErrorCode::bad_data, fmt::format("{}: '{}' is not a number", place, text));
    return value;
}

Published mean_row(const std::vector<std::string_view>& f, const std::string& place,
                   const std::string& table) {
    return {.table = table,
            .dataset = std::string(f[0]),
            .kernel = std::string(f[1]),
            .sampler = std::string(f[2]),
            .backend = std::string(f[3]),
            .log_ratio = number<double>(f[4], place),
            .m = number<std::int64_t>(f[5], place),
            .quantity = parse_enum<Quantity>(f[6]),
            .value = {.mean = number<double>(f[7], place),
                      .std = number<double>(f[8], place),
                      .n = number<std::size_t>(f[9], place)}};
}

Quantity metric_quantity(std::string_view metric, const std::string& place) {
    if (metric == "acc") return Quantity::accuracy;
    if (metric == "err") return Quantity::gram_error;
    fail(ErrorCode::bad_data, fmt::format("{}: unknown metric '{}'; expected acc or err", place, metric));
}

Published seed_row(const std::vector<std::string_view>& f, const std::string& place,
                   const std::string& table) {
    const bool liu = f[0].ends_with(kLiuSuffix);
    Published p{.table = liu ? "liu" : table,
                .dataset = std::string(f[0].substr(0, f[0].size() - (liu ? kLiuSuffix.size() : 0))),
                .kernel = std::string(to_string(parse_enum<Kernel>(f[1]))),
                .sampler = std::string(to_string(parse_enum<Sampler>(f[2]))),
                .backend = std::string(f[7]),
                .log_ratio = number<double>(f[3], place),
                .m = static_cast<std::int64_t>(number<double>(f[5], place)),
                .quantity = metric_quantity(f[8], place)};
    p.value.values = {number<double>(f[9], place)};
    return p;
}

// Errors are compared by their logarithm, accuracies are shares.
void check_values(const Published& p, const std::string& place) {
    const double value = p.value.values.empty() ? p.value.mean : p.value.values.front();
    const bool error = p.quantity == Quantity::gram_error;
    const bool valid = error ? value > 0.0 && std::isfinite(value) : value >= 0.0 && value <= 1.0;
    if (!valid || !(p.value.std >= 0.0))
        fail(ErrorCode::bad_data,
             fmt::format("{}: {} is out of range; {}", place, value,
                         error ? "a Gram error must be > 0" : "an accuracy must be from 0 to 1"));
}

// One value per cell from the rows of its seeds.
std::vector<Published> merge_seeds(std::vector<Published> rows) {
    using Key =
        std::tuple<std::string, std::string, std::string, std::string, std::string, std::int64_t, Quantity>;
    std::map<Key, std::size_t> places;
    std::vector<Published> cells;
    for (auto& row : rows) {
        const Key key{row.table, row.dataset, row.kernel, row.sampler, row.backend, row.m, row.quantity};
        const auto [place, is_new] = places.try_emplace(key, cells.size());
        if (is_new) {
            cells.push_back(std::move(row));
        } else {
            cells[place->second].value.values.push_back(row.value.values.front());
        }
    }
    for (auto& cell : cells) cell.value = summarize(std::move(cell.value.values));
    return cells;
}

std::string_view without_cr(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

}  // namespace

std::vector<Published> parse_published(std::string_view csv, const std::string& where,
                                       const std::string& table) {
    const auto lines = split(csv, '\n');
    const auto header = without_cr(lines.front());
    if (header != kMeans && header != kSeeds)
        fail(ErrorCode::bad_data,
             fmt::format("{}: line 1: the header must be '{}' or '{}'", where, kMeans, kSeeds));
    std::vector<Published> rows;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const auto line = without_cr(lines[i]);
        if (line.empty()) continue;
        const auto place = fmt::format("{}: line {}", where, i + 1);
        const auto f = split(line, ',');
        if (f.size() != 10)
            fail(ErrorCode::bad_data, fmt::format("{}: expected 10 fields, got {}", place, f.size()));
        if (header == kMeans) {
            rows.push_back(mean_row(f, place, table));
        } else if (f[0] != "attention") {
            rows.push_back(seed_row(f, place, table));
        } else {
            continue;
        }
        check_values(rows.back(), place);
    }
    return header == kMeans ? rows : merge_seeds(std::move(rows));
}

std::vector<Published> read_published(const std::filesystem::path& path) {
    return parse_published(read_file(path, kLargestFile), path.string());
}

const std::vector<Published>& published_values() {
    static const auto all = [] {
        auto values = parse_published(embedded::published_ridge, "ridge", "ridge");
        std::ranges::move(parse_published(embedded::published_liu, "liu", "liu"), std::back_inserter(values));
        return values;
    }();
    return all;
}

}  // namespace imka
