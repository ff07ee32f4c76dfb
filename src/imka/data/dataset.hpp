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
#include "imka/data/row_reader.hpp"
#include "imka/data/standardize.hpp"

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
    // Sorted, numbers by value. Protocol measured: the class that the published runs call 0, then the other.
    std::vector<std::string> classes;
    std::string source_sha256;          // hash over the parsed tables (or the generator's name and version)
    std::optional<double> bayes_error;  // where theory gives it (generators)
    // What was applied to both parts, for new rows. None without standardize and in the protocol measured,
    // which standardises parts by statistics of their own.
    std::optional<Standardization> standardization;
};

struct LoadOptions {
    Protocol protocol = Protocol::default_;
    std::filesystem::path data_dir = {};  // folder with one folder a set; empty: only generators and files
    std::uint64_t split_seed = 0;         // random splits and generators
    bool standardize = true;
    std::uint64_t train_rows = 0;  // generators: 0 = their default sizes
    std::uint64_t test_rows = 0;
    ReadOptions read = {};  // files: how they are written
};

// A registered set, a generator, a file (split at random in halves) or two files "TRAIN:TEST". Labels of an
// NPY file x.npy come from a column that options.read names or from x.labels.npy beside it.
// Error{missing_part} when a registered set's files are not there, with the command that gets them;
// Error{bad_data} when their parsed table is not the known one, when there is one class only, or when the
// test part has a class that the training part does not have.
Dataset load_dataset(const std::string& name, const LoadOptions& options = {}, const Exec& exec = {});

// What load_dataset will give, known without loading for registered sets (whether their files are there or
// not) and generators; files are read for it.
struct DatasetFacts {
    std::string source_sha256;
    std::uint64_t features = 0;
    std::uint64_t train_rows = 0;
    std::uint64_t test_rows = 0;
    std::uint64_t classes = 0;
    bool uses_split_seed = false;  // another split seed gives other parts
};
DatasetFacts dataset_facts(const std::string& name, const LoadOptions& options, const Exec& exec);

}  // namespace imka
