// The generated tasks: each writes one example from its own random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "imka/data/lra/example_random.hpp"

namespace imka {

// Length and label of an example.
struct GeneratedExample {
    std::uint32_t length = 0;
    std::uint8_t label = 0;
};

// Examples in a part of a generated task.
std::size_t generated_examples(LraTask task, LraPart part);

// tokens: zeros on entry, one per position of the task's length.
GeneratedExample generate_listops(ExampleRandom& random, std::span<std::uint8_t> tokens);
GeneratedExample generate_pathfinder(ExampleRandom& random, std::span<std::uint8_t> tokens);
GeneratedExample generate_tiny(ExampleRandom& random, std::span<std::uint8_t> tokens);

}  // namespace imka
