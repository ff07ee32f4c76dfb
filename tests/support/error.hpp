// Error messages, for tests of bad input.
#pragma once

#include <string>

#include "imka/base/error.hpp"

// "bad_data: <message>" of the imka::Error that `action` throws, or "no error". Other exceptions propagate.
template <class Action>
std::string error_of(Action&& action) {
    constexpr const char* kNames[] = {"bad_usage", "bad_config",   "bad_data",   "io",
                                      "numeric",   "missing_part", "interrupted"};
    try {
        action();
    } catch (const imka::Error& e) {
        return std::string(kNames[static_cast<std::size_t>(e.code())]) + ": " + e.what();
    }
    return "no error";
}
