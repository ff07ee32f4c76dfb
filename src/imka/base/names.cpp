#include "imka/base/names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/error.hpp"

namespace imka {

std::string join(std::span<const std::string_view> names, std::string_view separator) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += separator;
        text += names[i];
    }
    return text;
}

std::size_t find_name(std::string_view text, std::span<const std::string_view> names, std::string_view what) {
    const auto it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) {
        fail(ErrorCode::bad_config,
             fmt::format("'{}' is not a known {}; known: {}", text, what, join(names)));
    }
    return static_cast<std::size_t>(it - names.begin());
}

}  // namespace imka
