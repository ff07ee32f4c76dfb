#include "imka/chip/spec/chip.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "imka/base/names.hpp"
#include "imka/chip/spec/chip_io.hpp"

namespace imka {
namespace embedded {
extern const std::string_view chip_ideal;
extern const std::string_view chip_hermes;
extern const std::string_view chip_hermes_published;
extern const std::string_view chip_hermes_od;
extern const std::string_view chip_hermes_afm;
extern const std::string_view chip_pcm_like;
extern const std::string_view chip_rram_wan;
}  // namespace embedded

namespace {

constexpr std::array<std::string_view, 7> kNames = {"ideal",      "hermes",   "hermes-published", "hermes-od",
                                                    "hermes-afm", "pcm-like", "rram-wan"};

// In the order of kNames.
std::string_view text_of(std::size_t index) {
    const std::array<std::string_view, 7> texts = {
        embedded::chip_ideal,     embedded::chip_hermes,     embedded::chip_hermes_published,
        embedded::chip_hermes_od, embedded::chip_hermes_afm, embedded::chip_pcm_like,
        embedded::chip_rram_wan};
    return texts[index];
}

}  // namespace

std::vector<std::string> chip_names() {
    return {kNames.begin(), kNames.end()};
}

std::string_view chip_preset_text(const std::string& name) {
    return text_of(find_name(name, kNames, "chip"));
}

ChipSpec chip_preset(const std::string& name) {
    return parse_chip(chip_preset_text(name), fmt::format("chips/{}.yaml", name));
}

}  // namespace imka
