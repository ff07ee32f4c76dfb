// Settings. A configuration is an aggregate with defaults and one field list, which YAML files, the command
// line, JSON and records all use. A setting has one name, one range and one help text, defined only in the
// field list.
//
//   struct RidgeConfig {
//       double alpha = 0.5;  // ridge penalty; >= 0
//   };
//   Fields fields(RidgeConfig& c) {
//       return {field("alpha", c.alpha, {.help = "ridge penalty", .min = 0.0})};
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

struct FieldInfo {
    std::string_view help;
    std::string_view unit{};  // shown after the help text
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
    bool above_min = false;  // the minimum itself is excluded
    bool unlimited = false;  // +infinity is allowed: no limit
};
// The usual ranges.
namespace range {
constexpr FieldInfo positive(std::string_view help, std::string_view unit = "") {
    return {.help = help, .unit = unit, .min = 0.0, .above_min = true};
}
constexpr FieldInfo not_negative(std::string_view help, std::string_view unit = "") {
    return {.help = help, .unit = unit, .min = 0.0};
}
constexpr FieldInfo between(double min, double max, std::string_view help, std::string_view unit = "") {
    return {.help = help, .unit = unit, .min = min, .max = max};
}
// From 0 to 1; a positive share excludes 0.
constexpr FieldInfo share(std::string_view help) {
    return {.help = help, .min = 0.0, .max = 1.0};
}
constexpr FieldInfo positive_share(std::string_view help) {
    return {.help = help, .min = 0.0, .max = 1.0, .above_min = true};
}
}  // namespace range

// One setting of an object. Must not outlive the object.
struct Field {
    std::string name;
    FieldInfo info;
    std::string type;                                // "number", "integer", "rff|orf|sorf", ...
    std::function<void(std::string_view text)> set;  // Error{bad_config} with field name and range
    std::function<std::string()> json;               // the value as JSON text
    std::function<void()> check;                     // Error{bad_config} if the value is out of range
};
using Fields = std::vector<Field>;

// Converts one type of setting to text and back.
template <class T>
struct Codec;

namespace detail {
double parse_number(std::string_view text, std::string_view name);
std::int64_t parse_integer(std::string_view text, std::string_view name, std::int64_t min, std::int64_t max);
std::uint64_t parse_unsigned(std::string_view text, std::string_view name, std::uint64_t max);
bool parse_bool(std::string_view text, std::string_view name);
void check_range(double value, const FieldInfo& info, std::string_view name);
std::string number_json(double value);
std::string string_json(std::string_view text);
}  // namespace detail

template <>
struct Codec<double> {
    static std::string type() { return "number"; }
    static double parse(std::string_view text, std::string_view name) {
        return detail::parse_number(text, name);
    }
    static std::string json(double v) { return detail::number_json(v); }
    static void check(double v, const FieldInfo& info, std::string_view name) {
        detail::check_range(v, info, name);
    }
};
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
template <Integer T>
struct Codec<T> {
    static std::string type() { return "integer"; }
    static T parse(std::string_view text, std::string_view name) {
        using Limits = std::numeric_limits<T>;
        if constexpr (std::signed_integral<T>)
            return static_cast<T>(detail::parse_integer(text, name, Limits::min(), Limits::max()));
        else
            return static_cast<T>(detail::parse_unsigned(text, name, Limits::max()));
    }
    static std::string json(T v) { return std::to_string(v); }
    static void check(T v, const FieldInfo& info, std::string_view name) {
        detail::check_range(static_cast<double>(v), info, name);
    }
};
template <>
struct Codec<bool> {
    static std::string type() { return "true|false"; }
    static bool parse(std::string_view text, std::string_view name) { return detail::parse_bool(text, name); }
    static std::string json(bool v) { return v ? "true" : "false"; }
    static void check(bool, const FieldInfo&, std::string_view) {}
};
template <>
struct Codec<std::string> {
    static std::string type() { return "text"; }
    static std::string parse(std::string_view text, std::string_view) { return std::string(text); }
    static std::string json(const std::string& v) { return detail::string_json(v); }
    static void check(const std::string&, const FieldInfo&, std::string_view) {}
};
template <NamedEnum E>
struct Codec<E> {
    static std::string type() { return join_names(EnumNames<E>::values, "|"); }
    static E parse(std::string_view text, std::string_view) { return parse_enum<E>(text); }
    static std::string json(E v) { return detail::string_json(to_string(v)); }
    static void check(E, const FieldInfo&, std::string_view) {}
};
// An optional setting: absent is JSON null and the text "auto".
template <class T>
struct Codec<std::optional<T>> {
    static std::string type() { return Codec<T>::type(); }
    static std::optional<T> parse(std::string_view text, std::string_view name) {
        if (text == "auto") return std::nullopt;
        return Codec<T>::parse(text, name);
    }
    static std::string json(const std::optional<T>& v) { return v ? Codec<T>::json(*v) : "null"; }
    static void check(const std::optional<T>& v, const FieldInfo& info, std::string_view name) {
        if (v) Codec<T>::check(*v, info, name);
    }
};
// Seeds: "7", "0..9" (both ends included), "0,3,5..8".
template <>
struct Codec<std::vector<std::uint64_t>> {
    static std::string type() { return "list such as 0..9 or 1,4,7"; }
    static std::vector<std::uint64_t> parse(std::string_view text, std::string_view name);
    static std::string json(const std::vector<std::uint64_t>& v);
    static void check(const std::vector<std::uint64_t>& v, const FieldInfo& info, std::string_view name);
};

template <class T>
Field field(std::string name, T& value, FieldInfo info) {
    return {.name = name,
            .info = info,
            .type = Codec<T>::type(),
            .set =
                [name, &value, info](std::string_view text) {
                    T parsed = Codec<T>::parse(text, name);
                    Codec<T>::check(parsed, info, name);
                    value = std::move(parsed);
                },
            .json = [&value] { return Codec<T>::json(value); },
            .check = [name, &value, info] { Codec<T>::check(value, info, name); }};
}

// Sets the named field; Error{bad_config} with the known names if there is no such field.
void set_field(const Fields& fields, std::string_view name, std::string_view text);
// {"alpha": 0.5, ...} in the order of the list. Equal settings give equal text.
std::string to_json(const Fields& fields);
// Error{bad_config} naming the first field out of range. NaN is always out of range, infinity unless
// `unlimited`.
void check_ranges(const Fields& fields);

// The value as text for `set`: without quotes, list items joined by commas, "auto" if absent.
std::string plain_text(const Field& field);

// Splits "key=value". Error{bad_config} "<what> '<text>': expected KEY=VALUE" otherwise.
struct Assignment {
    std::string key;
    std::string value;
};
Assignment parse_assignment(std::string_view text, std::string_view what);

}  // namespace imka
