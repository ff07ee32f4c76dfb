#include "imka/base/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"

namespace imka {
namespace detail {
namespace {

bool is_integer(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <class T>
T parse_within(std::string_view text, std::string_view name, T min, T max) {
    if (!is_integer(text))
        fail(ErrorCode::bad_config, fmt::format("{}: {} is not an integer", name, in_quotes(text)));
    T value{};
    const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
    if (error != std::errc{} || value < min || value > max)
        fail(ErrorCode::bad_config, fmt::format("{}: {} is out of range; it must be from {} to {}", name,
                                                in_quotes(text), min, max));
    return value;
}

}  // namespace

double parse_number(std::string_view text, std::string_view name) {
    double value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (stop != text.data() + text.size() || error == std::errc::invalid_argument)
        fail(ErrorCode::bad_config, fmt::format("{}: {} is not a number", name, in_quotes(text)));
    if (error != std::errc{})
        fail(ErrorCode::bad_config,
             fmt::format("{}: {} is beyond the range of numbers", name, in_quotes(text)));
    if (!std::isfinite(value))
        fail(ErrorCode::bad_config, fmt::format("{}: {} is not finite", name, in_quotes(text)));
    return value;
}

std::int64_t parse_integer(std::string_view text, std::string_view name, std::int64_t min, std::int64_t max) {
    return parse_within(text, name, min, max);
}

std::uint64_t parse_unsigned(std::string_view text, std::string_view name, std::uint64_t max) {
    return parse_within(text, name, std::uint64_t{0}, max);
}

bool parse_bool(std::string_view text, std::string_view name) {
    if (text == "true") return true;
    if (text == "false") return false;
    fail(ErrorCode::bad_config, fmt::format("{}: {} is neither true nor false", name, in_quotes(text)));
}

void check_range(double value, const FieldInfo& info, std::string_view name) {
    const bool above = info.above_min ? value > info.min : value >= info.min;
    const bool finite = std::isfinite(value) || (info.unlimited && value > 0.0);
    if (above && value <= info.max && finite) return;
    std::string range;
    if (std::isfinite(info.min)) range = fmt::format("{} {}", info.above_min ? ">" : ">=", info.min);
    if (std::isfinite(info.max)) range += fmt::format("{}<= {}", range.empty() ? "" : " and ", info.max);
    if (range.empty()) range = "a finite number";
    fail(ErrorCode::bad_config, fmt::format("{}: {} is out of range; it must be {}", name, value, range));
}

std::string number_json(double value) {
    return nlohmann::json(value).dump();
}

std::string string_json(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace detail

std::vector<std::uint64_t> Codec<std::vector<std::uint64_t>>::parse(std::string_view text,
                                                                    std::string_view name) {
    constexpr std::uint64_t kMost = 100'000;
    std::vector<std::uint64_t> values;
    while (true) {
        const auto comma = text.find(',');
        const auto part = text.substr(0, comma);
        const auto dots = part.find("..");
        const auto first = Codec<std::uint64_t>::parse(part.substr(0, dots), name);
        const auto last =
            dots == std::string_view::npos ? first : Codec<std::uint64_t>::parse(part.substr(dots + 2), name);
        if (last < first) fail(ErrorCode::bad_config, fmt::format("{}: '{}' counts backwards", name, part));
        if (last - first >= kMost - values.size()) {
            fail(ErrorCode::bad_config, fmt::format("{}: more than {} values in the list", name, kMost));
        }
        for (auto v = first; v != last + 1; ++v) values.push_back(v);
        if (comma == std::string_view::npos) return values;
        text.remove_prefix(comma + 1);
    }
}

std::string Codec<std::vector<std::uint64_t>>::json(const std::vector<std::uint64_t>& v) {
    return nlohmann::json(v).dump();
}

void Codec<std::vector<std::uint64_t>>::check(const std::vector<std::uint64_t>& v, const FieldInfo&,
                                              std::string_view name) {
    if (v.empty()) fail(ErrorCode::bad_config, fmt::format("{}: the list is empty", name));
    // Sorting is faster than a set: a short text such as 0..99999 can stand for many values.
    auto sorted = v;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        fail(ErrorCode::bad_config, fmt::format("{}: duplicate value", name));
}

void set_field(const Fields& fields, std::string_view name, std::string_view text) {
    const auto it =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    if (it == fields.end()) {
        std::vector<std::string_view> names;
        for (const auto& f : fields) names.emplace_back(f.name);
        fail(ErrorCode::bad_config,
             fmt::format("{} is not a known setting; known: {}", in_quotes(name), join_names(names)));
    }
    it->set(text);
}

std::string to_json(const Fields& fields) {
    std::string text = "{";
    for (const auto& f : fields) {
        if (text.size() > 1) text += ", ";
        text += detail::string_json(f.name) + ": " + f.json();
    }
    return text + "}";
}

void check_ranges(const Fields& fields) {
    for (const auto& f : fields) f.check();
}

namespace {

std::string json_text(const nlohmann::json& j) {
    if (j.is_null()) return "auto";
    if (j.is_string()) return j.get<std::string>();
    if (j.is_number_float()) return fmt::format("{}", j.get<double>());
    if (!j.is_array()) return j.dump();
    std::vector<std::string> parts;
    for (const auto& value : j) parts.push_back(json_text(value));
    return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::string plain_text(const Field& field) {
    return json_text(nlohmann::json::parse(field.json()));
}

Assignment parse_assignment(std::string_view text, std::string_view what) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0)
        fail(ErrorCode::bad_config, fmt::format("{} {}: expected KEY=VALUE", what, in_quotes(text)));
    return {.key = std::string(text.substr(0, equals)), .value = std::string(text.substr(equals + 1))};
}

}  // namespace imka
