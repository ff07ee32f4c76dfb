// Figures of runs of attention, their break-even, and pictures of attention matrices.
#include "imka/report/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "imka/report/report.hpp"

namespace imka::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Record record_of(const std::string& kind, std::uint64_t seed, const SettingsText& settings,
                 std::map<std::string, double> results) {
    auto config = settings_text(attention_defaults());
    for (const auto& [name, value] : settings) config[name] = value;
    results["d"] = 16.0;
    const auto key = kind + std::to_string(seed) + config.at("n_directions") + config.at("length") +
                     config.at("form") + config.at("published_slips");
    return {.key = key,
            .experiment = "e",
            .kind = kind,
            .seed = seed,
            .config = std::move(config),
            .results = std::move(results)};
}

std::vector<Record> error_records() {
    std::vector<Record> records;
    for (const auto* form : {"positive", "cos_sin"}) {
        for (const int m : {16, 32}) {
            for (std::uint64_t seed = 0; seed < 7; ++seed)
                records.push_back(record_of(
                    "attention", seed, {{"form", form}, {"n_directions", std::to_string(m)}},
                    {{"output_mse", (seed == 6 ? 100.0 : 1.0) / m}, {"trivial_mse", 0.25}, {"m", m}}));
        }
    }
    return records;
}

TEST(AttentionFigures, ShowMediansAgainstDirections) {
    const auto figures = attention_figures(error_records());
    ASSERT_EQ(figures.size(), 1U);
    const auto& f = figures[0];
    ASSERT_EQ(f.curves.size(), 2U);
    EXPECT_EQ(f.curves[0].label, "orf, cos_sin");
    EXPECT_EQ(f.curves[1].label, "orf, positive");
    ASSERT_EQ(f.curves[1].points.size(), 2U);
    const auto& p = f.curves[1].points[0];
    EXPECT_EQ(p.x, 16.0);
    EXPECT_EQ(p.n, 7U);
    EXPECT_EQ(p.value.median, 1.0 / 16.0) << "one large value does not move it";
    EXPECT_EQ(p.value.high, 100.0 / 16.0);
    EXPECT_TRUE(f.plot.log_y);
    EXPECT_THAT(f.notes, ElementsAre(HasSubstr("0.25")));
    EXPECT_EQ(f.plot.series[1].points[0].below, 0.0);
}

TEST(AttentionFigures, SeparateTheSlipsOfThePublishedFigure) {
    auto records = error_records();
    records.push_back(record_of("attention", 0,
                                {{"published_slips", "true"}, {"norms", "sqrt"}, {"n_directions", "16"}},
                                {{"output_mse", 1.0}, {"m", 16.0}}));
    const auto figures = attention_figures(records);
    ASSERT_EQ(figures.size(), 2U);
    EXPECT_THAT(figures[1].title, HasSubstr("slips"));
    EXPECT_NE(figures[0].plot.id, figures[1].plot.id);
}

TEST(AttentionFigures, NameFilesWithoutTheirFolder) {
    const auto figures = attention_figures(
        std::vector{record_of("attention", 0, {{"dataset", "/home/me/qkv.npy"}, {"length", "auto"}},
                              {{"output_mse", 1.0}, {"m", 16.0}})});
    ASSERT_EQ(figures.size(), 1U);
    EXPECT_THAT(figures[0].title, testing::StartsWith("qkv.npy: "));
    EXPECT_THAT(figures[0].caption, HasSubstr("for qkv.npy. Points"));
}

TEST(AttentionFigures, FindTheBreakEvenOfTimes) {
    std::vector<Record> records;
    for (const double length : {256.0, 1024.0, 4096.0})
        records.push_back(record_of("attention_time", 0, {{"length", std::to_string(int(length))}},
                                    {{"exact_seconds", 1e-9 * length * length},
                                     {"kernel_seconds", 1e-6 * length},
                                     {"exact_memory_mb", 1.0},
                                     {"kernel_memory_mb", 1.0}}));
    const auto figures = attention_figures(records);
    ASSERT_EQ(figures.size(), 2U);
    ASSERT_EQ(figures[0].curves[0].label, "exact");
    EXPECT_NEAR(break_even(figures[0].curves[0], figures[0].curves[1]), 1000.0, 1e-6);
    EXPECT_THAT(figures[0].notes, ElementsAre(HasSubstr("about 1000")));
    EXPECT_EQ(break_even(figures[0].curves[1], figures[0].curves[0]), 0.0);
}

TEST(AttentionFigures, AreInTheDocument) {
    const auto report = make_report({.records = error_records(), .problems = {}}, "");
    const auto j = nlohmann::json::parse(report_json(report));
    const auto& section = j.at("experiments").at(0);
    EXPECT_EQ(section.at("attention").at(0).at("curves").at(1).at("points").at(0).at("median"), 1.0 / 16.0);
    EXPECT_EQ(section.at("attention").at(0).at("plot").at("log_y"), true);
    EXPECT_EQ(all_plots(report).size(), 1U);
}

AttentionPicture padded_picture() {
    AttentionPicture picture{.positions = {0, 1, 2, 3}, .names = {"exact", "FP32"}, .matrices = {}};
    for (const float scale : {1.0F, 2.0F}) {
        Matrix<float> m(4, 4);
        for (std::size_t i = 0; i < 16; ++i) m.values()[i] = scale * static_cast<float>(i);
        m(2, 2) = m(3, 3);  // two tokens of padding
        picture.matrices.push_back(m);
    }
    return picture;
}

TEST(HeatMaps, CutPaddingAndScaleValues) {
    const auto maps = heat_maps(padded_picture());
    ASSERT_EQ(maps.size(), 2U);
    EXPECT_EQ(maps[0].levels.rows(), 2U);
    EXPECT_EQ(maps[0].levels(0, 0), 0);
    EXPECT_EQ(maps[0].levels(1, 1), 255);
    EXPECT_EQ(maps[0].levels, maps[1].levels) << "the scale of the values cancels";
}

TEST(HeatMaps, ArePngFilesInAnSvgFile) {
    const auto maps = heat_maps(padded_picture());
    const auto png = png_bytes(maps[0].levels);
    EXPECT_EQ(png.substr(1, 3), "PNG");
    EXPECT_EQ(png.substr(png.size() - 8), "IEND\xAE\x42\x60\x82") << "checksum of an empty chunk";
    EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(base64("fo"), "Zm8=");
    EXPECT_EQ(base64("f"), "Zg==");
    EXPECT_THAT(heat_map_svg(maps), HasSubstr(base64(png)));
}

}  // namespace
}  // namespace imka::report
