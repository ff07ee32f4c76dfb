// Options that the verbs on data share: which run, which input file.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/experiment/run.hpp"

namespace imka::app {

struct RunArgs {
    RunConfig config;
    std::filesystem::path config_file;   // --config
    std::vector<std::string> overrides;  // --set key=value
    Assignments given;                   // settings that have flags of their own
    ReadOptions read;                    // --label-column and its like
    std::string read_format;
    std::uint32_t read_features = 0;
};

// --kernel, --gamma, ... --seeds, --config, --set. A flag beats --set, which beats the file.
void add_feature_options(CLI::App& verb, RunArgs& args);
// --dataset, --protocol, --split-seed, --gram-rows.
void add_dataset_options(CLI::App& verb, RunArgs& args);
// --format, --label-column, --n-features of an input file.
void add_read_options(CLI::App& verb, RunArgs& args);
// Applies file and overrides and checks everything that can be checked before work starts.
void finish_run_args(RunArgs& args);

ReadOptions read_options(const RunArgs& args);
Dataset load_run_data(const RunConfig& config, const Context& context);

struct InputBlock {
    Matrix<float> x;
    std::vector<std::string> labels;  // canonical; empty text where a row has none
    std::uint64_t first_row = 0;
};
// Reads a file in blocks of rows; memory does not grow with the file. options.features must be known for
// LIBSVM.
void for_each_input_block(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec,
                          const std::function<void(InputBlock&)>& body);

// "96.91 ± 0.12 (95 % CI of the mean ± 0.15, 5 seeds)"
std::string summary_text(const Summary& s, double factor, std::string_view unit);

}  // namespace imka::app
