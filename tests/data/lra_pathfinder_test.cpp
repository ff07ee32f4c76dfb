// Images of Pathfinder: pieces against Pillow, whole images against images of the published generator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "imka/base/sha256.hpp"
#include "imka/data/lra/pathfinder.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/io/byte_stream.hpp"
#include "support/data_dir.hpp"
#include "support/moments.hpp"

namespace imka {
namespace {

// Python: Image.new("F", (17, 17)) with ImageDraw.line from (8, 8), grey dilation with a disc of radius 2,
// Image.resize((9, 9), LANCZOS); ends (-4, -4), (-4, -3), ..., line then mask. Pillow 12 and later.
TEST(Pathfinder, SegmentsAreThoseOfPillow) {
    std::string bytes;
    for (int y = -4; y <= 4; ++y) {
        for (int x = -4; x <= 4; ++x) {
            const auto patch = pathfinder::make_patch({y, x});
            bytes.append(patch.line.values().begin(), patch.line.values().end());
            bytes.append(patch.mask.values().begin(), patch.mask.values().end());
        }
    }
    EXPECT_EQ(sha256_hex(bytes), "03f9a22dbb39ddff3b20480c5c2647b21364b4ddfc6c95c78c4f70e922be0db5");
    const auto patch = pathfinder::make_patch({-2, 3});
    const std::vector<std::uint8_t> row = {0, 0, 1, 1, 24, 111, 52, 1, 2};
    EXPECT_TRUE(std::ranges::equal(patch.line.row(3), row));
}

// Discs of radius 3 in 64 x 64 pixels, Image.resize((32, 32), LANCZOS), for every centre.
TEST(Pathfinder, MarkersAreThoseOfPillow) {
    std::string bytes;
    for (int i = 0; i < 1024; ++i) {
        const auto marker = pathfinder::make_marker({i / 32, i % 32});
        bytes.append(marker.values().begin(), marker.values().end());
    }
    EXPECT_EQ(sha256_hex(bytes), "2db8394dce91c103ef1a038a722a619f9f20782c5eccbd845dab5cc328af5d5c");
}

// Only segments to the upper left start a contour in the published generator.
TEST(Pathfinder, WhichSegmentsStartAContour) {
    EXPECT_TRUE(pathfinder::make_patch({-3, -2}).can_start);
    EXPECT_TRUE(pathfinder::make_patch({-2, -3}).can_start);
    for (const auto end : {pathfinder::Point{4, 0}, {0, 4}, {-4, 0}, {0, -4}, {3, 3}, {-1, -3}})
        EXPECT_FALSE(pathfinder::make_patch(end).can_start);
}

// Connected areas of pixels that are not 0.
double areas(std::span<const std::uint8_t> image) {
    std::vector<bool> seen(image.size());
    int count = 0;
    for (int start = 0; start < 1024; ++start) {
        std::vector<int> open = {start};
        bool first = true;
        while (!open.empty()) {
            const int p = open.back();
            open.pop_back();
            const auto at = static_cast<std::size_t>(p);
            if (seen[at] || image[at] == 0) continue;
            seen[at] = true;
            if (first) ++count;
            first = false;
            if (p % 32 > 0) open.push_back(p - 1);
            if (p % 32 < 31) open.push_back(p + 1);
            if (p >= 32) open.push_back(p - 32);
            if (p < 992) open.push_back(p + 32);
        }
    }
    return count;
}

// Figures of one image: gray levels, positions, neighbours.
struct Figure {
    std::string name;
    double (*of)(std::span<const std::uint8_t> image);
};

template <class Value>
double mean_of(std::span<const std::uint8_t> image, const Value& value) {
    double sum = 0.0;
    for (std::size_t i = 0; i < image.size(); ++i) sum += value(i);
    return sum / static_cast<double>(image.size());
}
template <int kLevel>
double share_from(std::span<const std::uint8_t> image) {
    return mean_of(image, [&](std::size_t i) { return image[i] >= kLevel ? 1.0 : 0.0; });
}
double row_of(std::size_t pixel) {
    const auto row = pixel / 32;
    return static_cast<double>(row);
}
double column_of(std::size_t pixel) {
    return static_cast<double>(pixel % 32);
}
template <int kFrom, int kTo>
double ring(std::span<const std::uint8_t> image) {
    return mean_of(image, [&](std::size_t i) {
        const double y = row_of(i) - 15.5;
        const double x = column_of(i) - 15.5;
        const double r = std::sqrt(y * y + x * x);
        return r >= kFrom && r < kTo ? image[i] : 0.0;
    });
}
template <std::size_t kDown, std::size_t kRight>
double neighbours(std::span<const std::uint8_t> image) {
    return mean_of(image, [&](std::size_t i) {
        const bool inside = i / 32 + kDown < 32 && i % 32 + kRight < 32;
        return inside ? static_cast<double>(image[i]) * image[i + 32 * kDown + kRight] : 0.0;
    });
}

const std::vector<Figure> kFigures = {
    {"mean", [](auto image) { return mean_of(image, [&](auto i) { return image[i]; }); }},
    {"not zero", share_from<1>},
    {"from 2", share_from<2>},
    {"from 50", share_from<50>},
    {"from 100", share_from<100>},
    {"from 128", share_from<128>},
    {"from 200", share_from<200>},
    {"white", share_from<255>},
    {"up and down", [](auto image) { return mean_of(image, [&](auto i) { return image[i] * row_of(i); }); }},
    {"left and right",
     [](auto image) { return mean_of(image, [&](auto i) { return image[i] * column_of(i); }); }},
    {"centre", ring<0, 4>},
    {"ring 4..8", ring<4, 8>},
    {"ring 8..12", ring<8, 12>},
    {"ring 12..16", ring<12, 16>},
    {"corners", ring<16, 24>},
    {"right neighbours", neighbours<0, 1>},
    {"lower neighbours", neighbours<1, 0>},
    {"two to the right", neighbours<0, 2>},
    {"four below", neighbours<4, 0>},
    {"connected areas", areas},
};

LraData published_images(const std::filesystem::path& path) {
    LraData data{.task = LraTask::pathfinder32};
    ByteStream stream(path, {});
    std::vector<char> record(1025);
    data.tokens = Matrix<std::uint8_t>(20'000, 1024);
    for (std::uint32_t i = 0; stream.read(record) == record.size(); ++i) {
        std::copy(record.begin() + 1, record.end(), data.tokens.row(i).begin());
        data.examples.push_back({.first = i, .second = i, .label = static_cast<std::uint8_t>(record[0])});
    }
    return data;
}

std::vector<double> values_of(const LraData& data, const Figure& figure) {
    std::vector<double> values;
    for (const auto& example : data.examples) values.push_back(figure.of(data.tokens.row(example.first)));
    return values;
}

// 6,000 generated images against 20,000: means and variances within 5 standard errors.
TEST(Pathfinder, ImagesHaveTheLawOfThePublishedGenerator) {
    IMKA_NEED_REAL_DATA(dir);
    const auto published = published_images(dir / "pathfinder32/pathfinder32_hard.bin.xz");
    ASSERT_EQ(published.examples.size(), 20'000U);
    const auto data = load_lra(LraTask::pathfinder32, LraPart::train, {.seed = 1, .examples = 6000}, {});
    for (const auto& figure : kFigures) {
        const auto a = moments(values_of(published, figure));
        const auto b = moments(values_of(data, figure));
        EXPECT_LT(std::abs(a.mean - b.mean), 5 * std::hypot(a.mean_error, b.mean_error))
            << figure.name << " " << a.mean << " " << b.mean;
        EXPECT_LT(std::abs(a.variance - b.variance), 5 * std::hypot(a.variance_error, b.variance_error))
            << figure.name << " " << a.variance << " " << b.variance;
    }
}

TEST(Pathfinder, LabelsAreFairAndGrayLevelsDoNotTellThem) {
    const auto data = load_lra(LraTask::pathfinder32, LraPart::test, {.examples = 4000}, {});
    std::vector<double> gray[2];
    for (const auto& example : data.examples) {
        const auto image = data.tokens.row(example.first);
        EXPECT_EQ(*std::ranges::max_element(image), 255);
        EXPECT_EQ(*std::ranges::min_element(image), 0);
        gray[example.label].push_back(kFigures[0].of(image));
    }
    EXPECT_NEAR(static_cast<double>(gray[1].size()), 2000, 5 * 31.6);
    const auto a = moments(gray[0]);
    const auto b = moments(gray[1]);
    EXPECT_LT(std::abs(a.mean - b.mean), 5 * std::hypot(a.mean_error, b.mean_error));
}

}  // namespace
}  // namespace imka
