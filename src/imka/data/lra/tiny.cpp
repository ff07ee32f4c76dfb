// The task for tests: which of four symbols is most frequent.
#include <algorithm>
#include <array>

#include "imka/data/lra/generate.hpp"

namespace imka {

// 32 to 64 symbols; drawn again until one symbol is the most frequent.
GeneratedExample generate_tiny(ExampleRandom& random, std::span<std::uint8_t> tokens) {
    constexpr std::uint32_t kSymbols = 4;
    const std::uint32_t length = 32 + random.below(33);
    while (true) {
        std::array<std::uint32_t, kSymbols> counts{};
        for (std::uint32_t t = 0; t < length; ++t) {
            tokens[t] = static_cast<std::uint8_t>(random.below(kSymbols));
            ++counts.at(tokens[t]);
        }
        const auto* most = std::ranges::max_element(counts);
        if (std::ranges::count(counts, *most) == 1)
            return {.length = length, .label = static_cast<std::uint8_t>(most - counts.begin())};
    }
}

}  // namespace imka
