// Mapping files: the published form is read and written; other text is refused.
#include "imka/deploy/mapping_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../fuzz/feed_mapping.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/map_verify.hpp"
#include "support/error.hpp"
#include "support/fuzz_seeds.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The form of the published files: two layers on core (1, 0), the second cut over two cores.
constexpr const char* kPublished = R"({
  "layers.0.q_proj": {
    "type": "Linear", "weight": "layers.0.q_proj.weight", "bias": "layers.0.q_proj.bias",
    "tiles_map": {"1": {"0": [{"tile_col_region": [0, 64], "tile_row_region": [0, 64],
                               "weight_col_region": [0, 64], "weight_row_region": [0, 64]}]}},
    "n_shared": 2},
  "last": {
    "type": "Linear", "weight": "last.weight", "bias": null,
    "tiles_map": {"1": {"0": [{"tile_col_region": [100, 102], "tile_row_region": [0, 256],
                               "weight_col_region": [0, 2], "weight_row_region": [0, 256]}],
                        "7": [{"tile_col_region": [9, 11], "tile_row_region": [0, 256],
                               "weight_col_region": [0, 2], "weight_row_region": [256, 512]}]}},
    "n_shared": 1}
})";

TEST(MappingFile, ReadsThePublishedForm) {
    const auto mapping = parse_mapping(kPublished, {}, "file");
    verify_products(mapping);
    ASSERT_EQ(mapping.matrices.size(), 2U);
    EXPECT_EQ(mapping.matrices[0].shape, (ListedMatrix{"layers.0.q_proj", 64, 64, 2, 1}));
    EXPECT_EQ(mapping.matrices[1].shape, (ListedMatrix{"last", 512, 2, 1, 1}));
    EXPECT_EQ(mapping.matrices[0].bias, "layers.0.q_proj.bias");
    ASSERT_EQ(mapping.regions.size(), 3U);
    EXPECT_EQ(mapping.regions[0].core, 8U);
    EXPECT_EQ(mapping.regions[2].core, 15U);
    EXPECT_EQ(mapping.regions[2].tile, (Tile{256, 256, 0, 2}));
    EXPECT_EQ(cores_used(mapping), 2U);
}

TEST(MappingFile, RoundTripKeepsTheMapping) {
    const TempDir dir;
    for (const auto* name : {"performer-aan", "resnet18-in"}) {
        for (const std::size_t replicas : {1U, 2U}) {
            const auto mapping =
                map_matrices(known_network(name).matrices, {}, {.replicas = replicas}).mapping;
            save_mapping(dir / "m.json", mapping);
            EXPECT_EQ(load_mapping(dir / "m.json", {}), mapping) << name;
        }
    }
}

std::string with(std::string text, const std::string& before, const std::string& after) {
    const auto at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before;
    return text.replace(at, before.size(), after);
}

TEST(MappingFile, RefusesOtherText) {
    const auto error = [](const std::string& text) {
        return error_of([&] { verify_products(parse_mapping(text, {}, "a.json")); });
    };
    const std::string good = kPublished;
    EXPECT_EQ(error(good), "no error");
    EXPECT_THAT(error(""), HasSubstr("bad_data: a.json: invalid JSON"));
    EXPECT_THAT(error("[]"), HasSubstr("expected an object with one key per layer"));
    EXPECT_THAT(error("{}"), HasSubstr("expected an object with one key per layer"));
    for (std::size_t n = 1; n < good.size(); n += 37)
        EXPECT_THAT(error(good.substr(0, n)), HasSubstr("a.json: invalid JSON")) << n;
    EXPECT_THAT(error(with(good, "\"last\"", "\"layers.0.q_proj\"")),
                HasSubstr("a.json: duplicate key 'layers.0.q_proj'"));
    EXPECT_THAT(error(with(good, "\"n_shared\": 2", "\"n_shared\": 0")),
                HasSubstr("n_shared: '0'; expected"));
    EXPECT_THAT(error(with(good, "\"n_shared\": 2", "\"n_shared\": 1.5")), HasSubstr("'1.5'; expected"));
    EXPECT_THAT(error(with(good, "\"n_shared\": 2", "\"n_shard\": 2")),
                AllOf(HasSubstr("unknown key 'n_shard'"), HasSubstr("known: type, weight")));
    EXPECT_THAT(error(with(good, "\"type\": \"Linear\",", "")), HasSubstr("'layers.0.q_proj': no 'type'"));
    EXPECT_THAT(error(with(good, "[0, 64]", "[0, 257]")),
                HasSubstr("'257'; expected a whole number from 1 to 256"));
    EXPECT_THAT(error(with(good, "[0, 64]", "[0, -1]")), HasSubstr("'-1'; expected"));
    EXPECT_THAT(error(with(good, "[0, 64]", "[64, 64]")), HasSubstr("expected a whole number from 65"));
    EXPECT_THAT(error(with(good, "[0, 64]", "[0, 64, 1]")), HasSubstr("expected [first, end]"));
    EXPECT_THAT(error(with(good, "[0, 64]", "[1, 64]")), HasSubstr("64 x 63 cells for 64 x 64 weights"));
    EXPECT_THAT(error(with(good, "\"7\"", "\"8\"")), HasSubstr("no core in row '1', column '8'"));
    EXPECT_THAT(error(with(good, "\"7\"", "\"x\"")), HasSubstr("no core in row '1', column 'x'"));
    EXPECT_THAT(error(with(good, "\"7\"", "\"99999999999999999999\"")), HasSubstr("no core"));
    EXPECT_THAT(error(with(good, "[100, 102]", "[60, 62]")), HasSubstr("overlaps"));
    EXPECT_THAT(error(with(good, "[256, 512]", "[255, 511]")), HasSubstr("has weights that are also in"));
    EXPECT_THAT(error(with(good, "[256, 512]", "[257, 513]")), HasSubstr("1024 of 1026 weights have a cell"));
    EXPECT_THAT(error(with(good, "{\"0\": [{\"tile_col_region\": [0, 64]",
                           "{\"0\": 5, \"1\": [{\"tile_col_region\": [0, 64]")),
                HasSubstr("expected a list of tiles"));
    EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("invalid JSON"));
}

TEST(MappingFile, CutShortOnDiskIsRefused) {
    const TempDir dir;
    write_file_atomic(dir / "m.json", std::string(kPublished).substr(0, 500));
    EXPECT_THAT(error_of([&] { load_mapping(dir / "m.json", {}); }), HasSubstr("m.json: invalid JSON"));
    EXPECT_THAT(error_of([&] { load_mapping(dir / "none.json", {}); }), HasSubstr("none.json"));
}

TEST(MappingFuzzSeeds, GiveMappingsOrOurErrors) {
    int mappings = 0;
    feed_seeds("mapping", [&](std::string_view bytes) { mappings += fuzz::feed_mapping(bytes) ? 1 : 0; });
    EXPECT_GE(mappings, 2) << "the seeds no longer get past the reader";
}

TEST(FloorPlan, ShowsEveryRegion) {
    const auto mapping = parse_mapping(kPublished, {}, "file");
    const auto svg = floor_plan_svg(mapping, "a <title>");
    EXPECT_THAT(svg,
                AllOf(HasSubstr("a &lt;title&gt;"), HasSubstr("core 8: 7.0 %"), HasSubstr("core 15: 0.8 %"),
                      HasSubstr("layers.0.q_proj [0:64, 0:64]: 64 x 64 at row 0, column 0"),
                      HasSubstr("last (512 x 2)")));
    const auto text = floor_plan_text(mapping);
    EXPECT_THAT(text, AllOf(HasSubstr("core 8: 7.0 %, 3 products per inference"),
                            HasSubstr("  AAAAAAAA....B..................."),
                            HasSubstr("B last [0:256, 0:2] at (0, 100)")));
}

TEST(MappingDiff, NamesWhatMoved) {
    const auto a = parse_mapping(kPublished, {}, "a");
    EXPECT_TRUE(mapping_differences(a, a).empty());
    auto b = a;
    b.regions[0].core = 0;
    b.regions[0].row = 3;
    EXPECT_THAT(mapping_differences(a, b),
                testing::ElementsAre("cores: 2 -> 3", "busiest core: 3 -> 2 products per inference",
                                     "layers.0.q_proj [0:64, 0:64]: core 8 (0, 0) -> core 0 (3, 0)"));
    b = a;
    b.matrices[1].shape.name = "first";
    EXPECT_THAT(mapping_differences(a, b),
                testing::ElementsAre("last: only in the first mapping", "first: only in the second mapping"));
    b = a;
    b.regions.pop_back();
    EXPECT_THAT(mapping_differences(a, b),
                testing::ElementsAre("cores: 2 -> 1", "last: tiles of a copy 2 -> 1"));
}

TEST(MappingDiff, TellsCopiesFromCuts) {
    const auto list = parse_shapes("64x64@8");
    const auto one = map_matrices(list, {}, {}).mapping;
    const auto two = map_matrices(list, {}, {.replicas = 2}).mapping;
    EXPECT_THAT(mapping_differences(one, two),
                testing::ElementsAre("cores: 1 -> 2", "busiest core: 8 -> 4 products per inference",
                                     "m0: copies 1 -> 2"));
    const auto other = map_matrices(parse_shapes("64x32@2"), {}, {}).mapping;
    EXPECT_THAT(mapping_differences(one, other),
                testing::ElementsAre("busiest core: 8 -> 2 products per inference",
                                     "m0: size 64 x 64 -> 64 x 32", "m0: vectors per call 8 -> 2"));
}

}  // namespace
}  // namespace imka
