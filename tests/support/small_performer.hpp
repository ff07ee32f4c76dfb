// Small Performers for tests.
#pragma once

#include <cstdint>

#include "imka/train/performer.hpp"

// Odd sizes, for tests of single functions.
inline imka::PerformerConfig small_performer() {
    return {.vocabulary = 6,
            .length = 20,
            .classes = 3,
            .width = 8,
            .hidden = 12,
            .heads = 2,
            .classifier_hidden = 5,
            .n_directions = 7};
}

// Fits the generated task `tiny`.
inline imka::PerformerConfig tiny_performer() {
    return {.vocabulary = 5,
            .length = 64,
            .classes = 4,
            .width = 8,
            .hidden = 12,
            .heads = 2,
            .classifier_hidden = 10,
            .n_directions = 16};
}

inline imka::Performer untrained_tiny(std::uint64_t seed = 5) {
    return imka::initial_performer(tiny_performer(), "tiny", seed);
}
