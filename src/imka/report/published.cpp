#include "imka/report/published.hpp"

#include <algorithm>
#include <array>

namespace imka::report {
namespace {

constexpr std::array kReproductions = {
    Reproduction{.name = "ridge",
                 .table = "ridge",
                 .backend = "",
                 .title = "Ridge classification with random features, in FP32 and on the chip",
                 .what =
                     "Fig. 2 and the extended results: accuracy and Gram error on six data sets, FP32 and "
                     "emulated chip, in the protocol of the published runs"},
    Reproduction{.name = "fidelity",
                 .table = "ridge",
                 .backend = "hermes",
                 .title = "The emulated chip against the measured one",
                 .what = "The four data sets with published chip results, 20 seeds: how far the emulation is "
                         "from the measurements"},
    Reproduction{.name = "ridge_fp32",
                 .table = "ridge",
                 .backend = "fp32",
                 .title = "Ridge classification with random features, in FP32",
                 .what =
                     "FP32 half of Fig. 2 and of the extended results: accuracy and Gram error on six data "
                     "sets, right by construction"},
    Reproduction{.name = "ridge_measured",
                 .table = "ridge",
                 .backend = "fp32",
                 .title = "Ridge classification as the published runs did it, in FP32",
                 .what = "The same cells in the protocol of the published runs, to compare number by number"},
    Reproduction{
        .name = "liu",
        .table = "liu",
        .backend = "fp32",
        .title = "Replication of a survey of random features on ijcnn1",
        .what = "Supplementary figure on the replicated baselines: rbf, arccos0 and arccos1 on ijcnn1"},
};

}  // namespace

std::span<const Reproduction> reproductions() {
    return kReproductions;
}

const Reproduction* find_reproduction(std::string_view name) {
    const auto* row = std::ranges::find(kReproductions, name, &Reproduction::name);
    return row == kReproductions.end() ? nullptr : row;
}

}  // namespace imka::report
