// Examples of Long Range Arena for people: pictures, expressions, text; and figures of a whole part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "imka/data/lra/task.hpp"

namespace imka {

// Tokens of a document without the padding.
std::span<const std::uint8_t> document_tokens(const LraData& data, std::uint32_t document);

// A document as text that ends with a line break. Pixels: a picture of characters, two per pixel. listops:
// the tree of the expression with the value of every operator. Symbols of tiny: letters. Bytes: with control
// characters and bytes that are not UTF-8 escaped.
std::string document_text(LraTask task, std::span<const std::uint8_t> tokens);

// A square image as a binary PGM file.
std::string pgm_bytes(std::span<const std::uint8_t> pixels);

struct LraStatistics {
    std::size_t examples = 0;
    std::size_t documents = 0;
    std::vector<std::size_t> class_counts;
    double mean_length = 0.0;
    std::array<std::uint32_t, 3> lengths = {};  // minimum, median, maximum
    struct Pixels {
        double mean = 0.0;
        double standard_deviation = 0.0;
        double share_of_zeros = 0.0;
        double share_from_128 = 0.0;
    };
    std::optional<Pixels> pixels;  // of images
};
LraStatistics lra_statistics(const LraData& data);

}  // namespace imka
