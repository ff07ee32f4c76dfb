// Trained models and the examples that test them, for runs of Performers (docs/evaluate.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/train/performer.hpp"

namespace imka {

// Settings of the inputs of a test of a Performer.
struct PerformerSource {
    std::string task = "cifar10";
    std::string models = "models";                        // folder of the checkpoints
    std::string checkpoint = "TASK-vanilla.safetensors";  // a file in it; TASK: the name of the task
    std::optional<std::int64_t> samples;                  // of the test part; auto: all
    std::uint64_t data_seed = 0;                          // of generated tasks and of `samples`
    std::int64_t calibration_examples = 256;              // for a chip

    bool operator==(const PerformerSource&) const = default;
};
// All except the task.
Fields fields(PerformerSource& source);
void validate(const PerformerSource& source);
std::filesystem::path checkpoint_path(const PerformerSource& source);
// The command that trains a checkpoint named like <recipe>-vanilla or <recipe>-hwa; "" for other names.
std::string training_command(const std::filesystem::path& checkpoint);
// Error{missing_part} with that command.
[[noreturn]] void fail_missing_model(const std::filesystem::path& path);

struct PerformerData {
    std::string source_sha256;  // of the checkpoint and of the examples
    Performer model;
    LraData test;
    LraData calibration;  // training examples
};
// Error{missing_part} if the checkpoint or the files of the task are missing; Error{bad_config} if the model
// was trained for another task.
PerformerData load_performer_data(const PerformerSource& source, const std::filesystem::path& data_dir,
                                  const Exec& exec);
// features: size of a head; train_rows: most tokens of an example; test_rows: examples.
DatasetFacts performer_facts(const PerformerData& data);

}  // namespace imka
