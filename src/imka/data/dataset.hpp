// A classification (or regression) problem ready for learning: training and test part, standardised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

// default: right by construction (statistics of the training part). measured: as the published runs were
// done.
enum class Protocol { default_, measured };
template <>
struct EnumNames<Protocol> {
    static constexpr std::string_view what = "protocol";
    static constexpr std::string_view values[] = {"default", "measured"};
};

struct Part {
    Matrix<float> x;              // rows x d
    std::vector<std::int32_t> y;  // class number per row, into Dataset::classes
};

struct Dataset {
    std::string name;
    Part train;
    Part test;
    std::vector<std::string> classes;   // sorted; numbers by value
    std::string source_sha256;          // hash over the parsed tables (or the generator's name and version)
    std::optional<double> bayes_error;  // where theory gives it (generators)
};

struct LoadOptions {
    Protocol protocol = Protocol::default_;
    std::filesystem::path data_dir;  // folder with one folder a set; empty: only generators and files
    std::uint64_t split_seed = 0;    // random splits and generators
    bool standardize = true;
    std::uint64_t train_rows = 0;  // generators: 0 = their default sizes
    std::uint64_t test_rows = 0;
};

// A registered set, a generator, or a file (split at random in halves). Error{missing_part} when a registered
// set's files are not there, with the command that gets them; Error{bad_data} when their parsed table is not
// the known one.
Dataset load_dataset(const std::string& name, const LoadOptions& options, const Exec& exec);

}  // namespace imka
