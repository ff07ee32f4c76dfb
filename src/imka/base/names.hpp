// Enumerators and their spelling. An enumerator is spelled the same in C++, YAML, command line, JSON and
// reports.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace imka {

// Specialise for an enumeration that counts from 0:
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

// Position of text in names; Error{bad_config} that lists the names otherwise.
std::size_t find_name(std::string_view text, std::span<const std::string_view> names, std::string_view what);

template <NamedEnum E>
E parse_enum(std::string_view text) {
    return static_cast<E>(find_name(text, EnumNames<E>::values, EnumNames<E>::what));
}

// "rff, orf, sorf"
std::string join(std::span<const std::string_view> names, std::string_view separator = ", ");

// What someone who wrote `text` may have meant, as the end of a sentence: "nearest: core.adc_noise". Of names
// with parts ("core.adc_noise") the last part alone counts too.
std::string nearest_names(std::string_view text, std::span<const std::string_view> names);

}  // namespace imka
