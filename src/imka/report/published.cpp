#include "imka/report/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "imka/base/error.hpp"

namespace imka::embedded {
extern const std::string_view published_ridge;
extern const std::string_view published_liu;
}  // namespace imka::embedded

namespace imka::report {
namespace {

constexpr std::string_view kHeader = "dataset,kernel,sampler,backend,log_ratio,m,metric,mean,std,n";

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
    if (error != std::errc{} || end != text.data() + text.size())
        fail(ErrorCode::bad_data, fmt::format("{}: '{}' is not a number", place, text));
    return value;
}

Published parse_row(std::string_view line, const std::string& table, const std::string& place) {
    const auto f = split(line, ',');
    if (f.size() != 10) fail(ErrorCode::bad_data, fmt::format("{}: {} fields, not 10", place, f.size()));
    return {.table = table,
            .dataset = std::string(f[0]),
            .kernel = std::string(f[1]),
            .sampler = std::string(f[2]),
            .backend = std::string(f[3]),
            .log_ratio = number<double>(f[4], place),
            .m = number<std::int64_t>(f[5], place),
            .quantity = parse_enum<Quantity>(f[6]),
            .mean = number<double>(f[7], place),
            .std = number<double>(f[8], place),
            .n = number<std::size_t>(f[9], place)};
}

}  // namespace

std::vector<Published> parse_published(std::string_view csv, const std::string& table) {
    const auto lines = split(csv, '\n');
    if (lines.front() != kHeader)
        fail(ErrorCode::bad_data, fmt::format("{}: line 1: the header must be {}", table, kHeader));
    std::vector<Published> values;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        if (lines[i].empty()) continue;
        values.push_back(parse_row(lines[i], table, fmt::format("{}: line {}", table, i + 1)));
    }
    return values;
}

const std::vector<Published>& published_values() {
    static const auto all = [] {
        auto values = parse_published(embedded::published_ridge, "ridge");
        std::ranges::move(parse_published(embedded::published_liu, "liu"), std::back_inserter(values));
        return values;
    }();
    return all;
}

}  // namespace imka::report
