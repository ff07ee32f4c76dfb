#include "imka/experiment/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka {
namespace {

// Streams of derived seeds; changing one changes results.
constexpr std::uint32_t kTestProducts = 0;
constexpr std::uint32_t kTrainProducts = 1;
constexpr std::uint32_t kCopyChip = 2;
constexpr std::uint32_t kCopyProducts = 3;
constexpr std::uint32_t kFirstDrawnChip = 0x100000;
constexpr std::uint32_t kFirstDrawnProducts = 0x200000;

ChipSpec find_chip(const std::string& name) {
    const auto presets = chip_names();
    if (std::find(presets.begin(), presets.end(), name) != presets.end()) return chip_preset(name);
    if (name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos)
        return load_chip(name);
    std::vector<std::string_view> known = {"fp32"};
    known.insert(known.end(), presets.begin(), presets.end());
    fail(ErrorCode::bad_config,
         fmt::format("'{}' is not a known backend; known: {}, or a chip file (NAME.yaml); {}", name,
                     join_names(known), nearest_names(name, known)));
}

std::uint64_t chip_seed(const ChipRun& run, std::uint64_t seed) {
    return run.chip_seed.value_or(seed);
}

}  // namespace

std::string Codec<BackendSetting>::type() {
    std::string text = "fp32";
    for (const auto& name : chip_names()) text += "|" + name;
    return text + "|FILE.yaml";
}

BackendSetting Codec<BackendSetting>::parse(std::string_view text, std::string_view name) {
    if (text.empty()) fail(ErrorCode::bad_config, fmt::format("{}: empty; expected {}", name, type()));
    return {.name = std::string(text)};
}

Fields fields(ChipRun& run) {
    Fields list = {
        field("chip_seed", run.chip_seed, {.help = "Seed of the chip's devices; auto: seed of the run"}),
        field(
            "chip_draw", run.chip_draw,
            {.help = "Draw of the chip's constants from the posterior of their fit; auto: the fitted values",
             .min = 0.0,
             .max = 1e6}),
        field("chip_set", run.chip_set,
              {.help = "Changed constants of the chip, e.g. device.programming_scale=0.5,core.adc_noise=2"}),
        field("chip_hash", run.chip_hash,
              {.help = "Expected hash of the chip (imka ridge --json shows it); auto: any"}),
    };
    for (auto& f : fields(run.projection)) list.push_back(std::move(f));
    list.push_back(field("fit_on", run.fit_on,
                         {.help = "Training features: exact, of this chip, or of several other chips"}));
    list.push_back(field("fit_draws", run.fit_draws,
                         {.help = "Number of other chips for fit_on chips", .min = 1.0, .max = 1000.0}));
    list.push_back(field("gram_copies", run.gram_copies,
                         {.help = "Chips for the Gram matrix; 2: products of the features of two independent "
                                  "chips, whose errors do not add up to a bias",
                          .min = 1.0,
                          .max = 2.0}));
    return list;
}

ChipSpec resolve_chip(const BackendSetting& backend, const ChipRun& run) {
    auto chip = find_chip(backend.name);
    if (run.chip_draw) chip = posterior_draw(chip, static_cast<std::size_t>(*run.chip_draw));
    try {
        set_constants(chip, run.chip_set);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("chip_set: {}", e.what()));
    }
    if (!run.chip_hash) return chip;
    const auto hash = chip_hash(chip);
    if (hash != *run.chip_hash)
        fail(ErrorCode::bad_config,
             fmt::format("chip_hash: the chip {} has the hash {}, not {}: its constants have changed",
                         backend.name, hash, *run.chip_hash));
    return chip;
}

ChipSeeds test_seeds(const ChipRun& run, std::uint64_t seed) {
    return {.chip = chip_seed(run, seed), .products = derived_seed(seed, kTestProducts)};
}

ChipSeeds train_seeds(const ChipRun& run, std::uint64_t seed) {
    return {.chip = chip_seed(run, seed), .products = derived_seed(seed, kTrainProducts)};
}

ChipSeeds copy_seeds(const ChipRun& run, std::uint64_t seed) {
    return {.chip = derived_seed(chip_seed(run, seed), kCopyChip),
            .products = derived_seed(seed, kCopyProducts)};
}

ChipSeeds draw_seeds(const ChipRun& run, std::uint64_t seed, std::int64_t draw) {
    const auto number = static_cast<std::uint32_t>(draw);
    return {.chip = derived_seed(chip_seed(run, seed), kFirstDrawnChip + number),
            .products = derived_seed(seed, kFirstDrawnProducts + number)};
}

std::string to_json(const ChipInfo& info) {
    const nlohmann::ordered_json j = {{"name", info.name},
                                      {"hash", info.hash},
                                      {"state", to_string(info.state)},
                                      {"seconds", info.seconds},
                                      {"cores", info.cores}};
    return j.dump();
}

}  // namespace imka
