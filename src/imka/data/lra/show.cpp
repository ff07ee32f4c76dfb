#include "imka/data/lra/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <string_view>

#include "imka/data/lra/listops.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

std::size_t side_of(std::span<const std::uint8_t> pixels) {
    const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(pixels.size()))));
    assert(side * side == pixels.size());
    return side;
}

std::string picture(std::span<const std::uint8_t> pixels) {
    constexpr std::string_view kShades = " .:-=+*#%@";  // dark to bright
    const std::size_t side = side_of(pixels);
    std::string text;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        text.append(2, kShades[pixels[i] * kShades.size() / 256]);
        if ((i + 1) % side == 0) text += '\n';
    }
    return text;
}

LraStatistics::Pixels pixel_statistics(const LraData& data) {
    std::array<std::uint64_t, 256> counts{};
    for (const auto value : data.tokens.values()) ++counts.at(value);
    const auto n = static_cast<double>(data.tokens.values().size());
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t v = 0; v < counts.size(); ++v) {
        const auto value = static_cast<double>(v);
        sum += value * static_cast<double>(counts.at(v));
        squares += value * value * static_cast<double>(counts.at(v));
    }
    const double mean = sum / n;
    const auto bright = std::accumulate(counts.begin() + 128, counts.end(), std::uint64_t{0});
    return {.mean = mean,
            .standard_deviation = std::sqrt(squares / n - mean * mean),
            .share_of_zeros = static_cast<double>(counts[0]) / n,
            .share_from_128 = static_cast<double>(bright) / n};
}

}  // namespace

std::span<const std::uint8_t> document_tokens(const LraData& data, std::uint32_t document) {
    return data.tokens.row(document).first(data.lengths[document]);
}

std::string document_text(LraTask task, std::span<const std::uint8_t> tokens) {
    if (lra_task(task).pixels) return picture(tokens);
    if (task == LraTask::listops) return listops::expression_tree(tokens);
    std::string text(tokens.begin(), tokens.end());
    if (task == LraTask::tiny) {
        for (auto& c : text) c = static_cast<char>('a' + c);
    }
    return printable(text) + '\n';
}

std::string pgm_bytes(std::span<const std::uint8_t> pixels) {
    const std::size_t side = side_of(pixels);
    std::string bytes = fmt::format("P5\n{} {}\n255\n", side, side);
    return bytes.append(pixels.begin(), pixels.end());
}

LraStatistics lra_statistics(const LraData& data) {
    const auto& info = lra_task(data.task);
    LraStatistics s{.examples = data.examples.size(), .documents = data.lengths.size()};
    s.class_counts.resize(static_cast<std::size_t>(info.classes));
    for (const auto& example : data.examples) ++s.class_counts.at(example.label);
    if (data.lengths.empty()) return s;
    auto sorted = data.lengths;
    std::ranges::sort(sorted);
    s.lengths = {sorted.front(), sorted[sorted.size() / 2], sorted.back()};
    s.mean_length = static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), std::uint64_t{0})) /
                    static_cast<double>(sorted.size());
    if (info.pixels) s.pixels = pixel_statistics(data);
    return s;
}

}  // namespace imka
