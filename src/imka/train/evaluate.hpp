// Tests a trained Performer on examples of its task: digitally, or with products on an emulated chip.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/graph/tensor.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/train/performer.hpp"

namespace imka {

// Which products run on the chip.
enum class EvalMode {
    fp32,          // none
    attention,     // those with Ω
    all,           // every static weight and Ω
    all_but_last,  // as `all`, on the same chip, with the last layer computed digitally
};
template <>
struct EnumNames<EvalMode> {
    static constexpr std::string_view what = "mode";
    static constexpr std::string_view values[] = {"fp32", "attention", "all", "all-but-last"};
};

// Law of the directions Ω that an evaluation draws.
enum class OmegaLaw {
    gaussian,  // that of the model's kernel
    poisson,   // a different one, to check that models depend on the law
};
template <>
struct EnumNames<OmegaLaw> {
    static constexpr std::string_view what = "law of the directions";
    static constexpr std::string_view values[] = {"gaussian", "poisson"};
};

struct EvaluateOptions {
    std::vector<EvalMode> modes = {EvalMode::fp32};
    std::vector<std::uint64_t> seeds = {0};  // each draws its own Ω and chip
    bool saved_omega = false;                // use the Ω of the model instead
    OmegaLaw omega_law = OmegaLaw::gaussian;
    bool truncated_omega = false;  // as on a chip, even if all modes are digital
    ChipSpec chip = {};            // of all modes but fp32
    BuildConfig build = {};
    std::size_t batch_tokens = 0;   // 0: many for a GPU, few for the caches of a processor
    std::size_t seeds_at_once = 0;  // prepared in parallel; 0: one, or one per thread with a GPU
};

struct EvaluationData {
    const LraData& test;
    const LraData& calibration;  // training examples; only for modes on a chip
};

// One mode with one seed.
struct SeedEvaluation {
    std::uint64_t seed = 0;
    std::vector<std::int32_t> predicted;  // class of each example
    double loss = 0.0;                    // mean cross-entropy
    double seconds = 0.0;                 // of the test, without calibration
    double saturated_share = 0.0;         // of the chip's conversions
};

struct ModeResult {
    EvalMode mode = EvalMode::fp32;
    std::vector<SeedEvaluation> seeds;
    std::size_t cores = 0;         // of the chip
    double saturated_share = 0.0;  // of its conversions, over all seeds
};

struct Evaluation {
    std::vector<std::int32_t> labels;
    std::size_t classes = 0;
    std::uint64_t tokens = 0;      // of all test documents, without padding
    bool truncated_omega = false;  // as on a chip. All modes of an evaluation have the same Ω
    std::vector<ModeResult> modes;
};

// Examples are sorted by length and run in batches that are cut to their longest document; results do not
// depend on the size of the batches. Chips of several seeds are prepared in parallel; tests on a GPU run one
// at a time, also those of different calls. The chip is calibrated with half of `calibration`: documents of
// at least the median length, cut to that length, so that padding does not count. Error{bad_config} if the
// model and the examples belong to different tasks or do not match.
Evaluation evaluate(const Performer& model, const EvaluationData& data, const EvaluateOptions& options,
                    const Exec& exec);

Summary accuracy_of(const Evaluation& evaluation, const ModeResult& result);
Summary loss_of(const ModeResult& result);
// classes x classes: examples of class (row) that were classified as (column), over all seeds.
Matrix<std::uint64_t> confusion_of(const Evaluation& evaluation, const ModeResult& result);

// Accuracy of a mode minus that of another one, on the same examples with the same seeds.
struct PairedDifference {
    Summary seeds;               // one value per seed
    double example_error = 0.0;  // standard error from the choice of examples
};
PairedDifference paired_difference(const Evaluation& evaluation, const ModeResult& result,
                                   const ModeResult& base);

// Queries, keys and values of the last layer, as `imka attention` reads them: (examples * heads) x 3 x tokens
// x head size. Uses the first `count` examples of at least the median length, cut to that length; of each
// example the first document, with the Ω of the model.
graph::Tensor last_layer_qkv(const Performer& model, const LraData& data, std::size_t count,
                             const Exec& exec);

}  // namespace imka
