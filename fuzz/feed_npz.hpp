// Shared by the NPZ fuzzer and the test that replays its seeds: bytes are rejected with imka::Error or give
// arrays.
#pragma once

#include <string_view>

#include "imka/base/error.hpp"
#include "imka/io/npz.hpp"

namespace imka::fuzz {

// Returns whether the bytes are an NPZ file.
inline bool feed_npz(std::string_view bytes) {
    try {
        return !parse_npz(bytes, "input").empty();
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
