// Names of enumerators, spelled the same in C++, YAML, command line, JSON and reports.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace imka {

// Specialise for an enumeration with values 0, 1, ...:
//   template <> struct EnumNames<Sampler> {
//       static constexpr std::string_view what = "sampler";
//       static constexpr std::string_view values[] = {"rff", "orf", "sorf"};
//   };
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
    EnumNames<E>::values;
};

template <NamedEnum E>
constexpr std::string_view to_string(E value) {
    return EnumNames<E>::values[static_cast<std::size_t>(value)];
}

// Quotes text from a user or a file in a message: shortened, with control characters as \x0a.
std::string in_quotes(std::string_view text);

// Index of text in names. If it is missing, Error{bad_config} that lists the names.
std::size_t find_name(std::string_view text, std::span<const std::string_view> names, std::string_view what);

template <NamedEnum E>
E parse_enum(std::string_view text) {
    return static_cast<E>(find_name(text, EnumNames<E>::values, EnumNames<E>::what));
}

// "rff, orf, sorf"
std::string join_names(std::span<const std::string_view> names, std::string_view separator = ", ");

// The names closest to `text`, to end an error message: "nearest: core.adc_noise". The last part of a dotted
// name is also compared alone.
std::string nearest_names(std::string_view text, std::span<const std::string_view> names);

}  // namespace imka
