#include "imka/experiment/performer_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/base/sha256.hpp"
#include "imka/train/recipe.hpp"

namespace imka {
namespace {

constexpr std::string_view kTaskName = "TASK";
constexpr std::size_t kLargestCheckpoint = std::size_t{1} << 30U;

template <class T>
void add(std::span<const T> values, Sha256& hash) {
    hash.update(std::as_bytes(values));
}

void add(const LraData& data, Sha256& hash) {
    hash.update(data.origin);
    for (std::size_t d = 0; d < data.tokens.rows(); ++d) add<std::uint8_t>(data.tokens.row(d), hash);
    add<std::uint32_t>(data.lengths, hash);
    for (const auto& e : data.examples) {
        const std::uint32_t values[] = {e.first, e.second, e.label};
        add<std::uint32_t>(values, hash);
    }
}

constexpr std::string_view kVanilla = "-vanilla";
constexpr std::string_view kHardware[] = {"-hwa", "-hwa_fitted"};  // trained from a vanilla model

}  // namespace

// "cifar10_relu-hwa" is trained with the recipe cifar10_relu_hwa, from cifar10_relu-vanilla.
std::string training_command(const std::filesystem::path& checkpoint) {
    const auto stem = checkpoint.stem().string();
    const auto* const hardware =
        std::ranges::find_if(kHardware, [&](std::string_view end) { return stem.ends_with(end); });
    const bool vanilla = hardware == std::end(kHardware);
    if (vanilla && !stem.ends_with(kVanilla)) return {};
    const auto start = stem.substr(0, stem.rfind('-'));
    const auto recipe = vanilla ? start : fmt::format("{}_{}", start, hardware->substr(1));
    const auto known = known_recipes();
    if (std::ranges::find(known, recipe) == known.end()) return {};
    const auto from = checkpoint.parent_path() / fmt::format("{}{}.safetensors", start, kVanilla);
    return fmt::format("imka train --task {}{} --output runs/{} && cp runs/{}/best.safetensors {}", recipe,
                       vanilla ? "" : fmt::format(" --from {}", from.string()), stem, stem,
                       checkpoint.string());
}

Fields fields(PerformerSource& s) {
    return {
        field("models", s.models, {.help = "Folder of the checkpoints"}),
        field("checkpoint", s.checkpoint,
              {.help = "File in that folder, written by 'imka train'; TASK is replaced by the task"}),
        field("samples", s.samples,
              {.help = "Number of test examples, drawn with data_seed; auto: all", .min = 1.0, .max = 1e7}),
        field("data_seed", s.data_seed, {.help = "Seed of generated tasks and of samples"}),
        field("calibration_examples", s.calibration_examples,
              range::between(1, 1e5, "Training examples used to calibrate a chip")),
    };
}

void validate(const PerformerSource& source) {
    (void)parse_enum<LraTask>(source.task);
    if (source.checkpoint.empty()) fail(ErrorCode::bad_config, "checkpoint: expected the name of a file");
}

std::filesystem::path checkpoint_path(const PerformerSource& source) {
    auto name = source.checkpoint;
    const auto place = name.find(kTaskName);
    if (place != std::string::npos) name.replace(place, kTaskName.size(), source.task);
    return std::filesystem::path(source.models) / name;
}

void fail_missing_model(const std::filesystem::path& path) {
    const auto command = training_command(path);
    fail(ErrorCode::missing_part, fmt::format("{}: no such model{}", path.string(),
                                              command.empty() ? "" : "; to train it: " + command));
}

PerformerData load_performer_data(const PerformerSource& source, const std::filesystem::path& data_dir,
                                  const Exec& exec) {
    const auto path = checkpoint_path(source);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) fail_missing_model(path);
    PerformerData data{.model = load_performer(path)};
    if (data.model.task != source.task)
        fail(ErrorCode::bad_config, fmt::format("{}: a model for the task {}, not {}", path.string(),
                                                in_quotes(data.model.task), in_quotes(source.task)));
    const auto task = parse_enum<LraTask>(source.task);
    LraSource examples{.data_dir = data_dir, .seed = source.data_seed};
    if (source.samples) examples.examples = static_cast<std::size_t>(*source.samples);
    data.test = load_lra(task, LraPart::test, examples, exec);
    // Half of the examples have at least the median length.
    examples.examples = static_cast<std::size_t>(2 * source.calibration_examples);
    data.calibration = load_lra(task, LraPart::train, examples, exec);
    Sha256 hash;
    hash.update(read_file(path, kLargestCheckpoint));
    add(data.test, hash);
    add(data.calibration, hash);
    data.source_sha256 = hash.hex();
    return data;
}

DatasetFacts performer_facts(const PerformerData& data) {
    const auto& config = data.model.config;
    return {.source_sha256 = data.source_sha256,
            .features = static_cast<std::uint64_t>(head_size(config)),
            .train_rows = static_cast<std::uint64_t>(config.length * config.documents),
            .test_rows = data.test.examples.size(),
            .classes = static_cast<std::uint64_t>(config.classes),
            .origin = data.test.origin};
}

}  // namespace imka
