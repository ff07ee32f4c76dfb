// Where the projection of a run is computed: on this processor or on an emulated chip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "imka/base/config.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/features/project_chip.hpp"

namespace imka {

struct BackendSetting {
    std::string name = "fp32";  // or a built-in chip, or a chip file
    bool is_chip() const { return name != "fp32"; }
};
template <>
struct Codec<BackendSetting> {
    static std::string type();
    static BackendSetting parse(std::string_view text, std::string_view name);
    static std::string json(const BackendSetting& b) { return detail::string_json(b.name); }
    static void check(const BackendSetting&, const FieldInfo&, std::string_view) {}
};

// Which features of the training rows the weights are fitted to.
enum class FitOn {
    fp32,   // exact, as in the measured runs
    chip,   // of the tested chip
    chips,  // mean over several other chips
};
template <>
struct EnumNames<FitOn> {
    static constexpr std::string_view what = "place of the fit";
    static constexpr std::string_view values[] = {"fp32", "chip", "chips"};
};

// Ignored if the backend is not a chip.
struct ChipRun {
    std::optional<std::uint64_t> chip_seed;  // auto: the seed of the run
    std::optional<std::int64_t> chip_draw;   // draw of the chip's posterior; auto: the fitted constants
    std::string chip_set;                    // changed constants: "device.programming_scale=0.5,..."
    std::optional<std::string> chip_hash;    // expected hash of the chip; auto: any
    BuildConfig projection;
    FitOn fit_on = FitOn::fp32;
    std::int64_t fit_draws = 4;  // number of chips for `chips`
    int gram_copies = 1;         // 2: the Gram matrix from products of features of two independent chips
};
Fields fields(ChipRun& run);

// The chip with its changed constants. Error{bad_config} for an unknown name, a constant that cannot be set,
// or a hash other than chip_hash.
ChipSpec resolve_chip(const BackendSetting& backend, const ChipRun& run);

// Seeds of a chip and of the products on it. They are separate, so the same chip can be read again with new
// noise.
struct ChipSeeds {
    std::uint64_t chip = 0;
    std::uint64_t products = 0;
};
// For a run with this seed: its chip, and the products of the test rows.
ChipSeeds test_seeds(const ChipRun& run, std::uint64_t seed);
// The same chip, products of the training rows.
ChipSeeds train_seeds(const ChipRun& run, std::uint64_t seed);
// The second chip of gram_copies.
ChipSeeds copy_seeds(const ChipRun& run, std::uint64_t seed);
// Another chip, number `draw`.
ChipSeeds draw_seeds(const ChipRun& run, std::uint64_t seed, std::int64_t draw);

// What a run reports about its chip.
struct ChipInfo {
    std::string name;
    std::string hash;
    ChipState state = ChipState::programmed;
    double seconds = 0.0;  // since programming
    std::size_t cores = 0;
};
// T: ChipMap or ChipProjection.
template <class T>
ChipInfo chip_info(const ChipSpec& chip, const ChipRun& run, const T& placed) {
    return {.name = chip.name,
            .hash = chip_hash(chip),
            .state = placed.state,
            .seconds = run.projection.read_seconds,
            .cores = placed.cores};
}
std::string to_json(const ChipInfo& info);

}  // namespace imka
