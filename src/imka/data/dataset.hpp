// A classification (or regression) problem: standardised training and test parts.
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

// default: standardises with the statistics of the training part. measured: as in the published runs.
enum class Protocol { default_, measured };
template <>
struct EnumNames<Protocol> {
    static constexpr std::string_view what = "protocol";
    static constexpr std::string_view values[] = {"default", "measured"};
};

// Whether labels are classes or numbers to predict.
enum class Task { classification, regression };
template <>
struct EnumNames<Task> {
    static constexpr std::string_view what = "task";
    static constexpr std::string_view values[] = {"classification", "regression"};
};

struct Part {
    Matrix<float> x;                  // rows x d
    std::vector<std::int32_t> y;      // class of each row, an index into Dataset::classes
    std::vector<double> target = {};  // regression: the number of each row; y is then empty
};

struct Dataset {
    std::string name;
    Part train;
    Part test;
    // Sorted, numbers by value. Protocol measured: class 0 of the published runs, then the other.
    std::vector<std::string> classes;
    std::string source_sha256;          // hash of the parsed tables (or of the generator's name and version)
    std::optional<double> bayes_error;  // known for generators with classes
    // Regression generators: standard deviation of the noise, and R² of the function without it.
    std::optional<double> noise;
    std::optional<double> best_r2;
    // Applied to both parts; apply it to new rows too. Empty without standardize and in the protocol
    // measured, which standardises the parts separately.
    std::optional<Standardization> standardization;
};

struct LoadOptions {
    Protocol protocol = Protocol::default_;
    Task task = Task::classification;
    std::filesystem::path data_dir = {};  // has one folder per set; empty: only generators and files
    std::uint64_t split_seed = 0;         // for random splits and generators
    bool standardize = true;
    std::uint64_t train_rows = 0;  // generators: 0 = default size
    std::uint64_t test_rows = 0;
    ReadOptions read = {};  // files: format options
};

// A registered set, a generator, a file (split into random halves) or two files "TRAIN:TEST". The labels of
// x.npy come from the column set in options.read or from x.labels.npy. Error{missing_part} if the files of a
// registered set are missing, with the command that downloads them; Error{bad_data} if a parsed table is not
// the expected one, if there is only one class, if the test part has a class that the training part lacks, or
// if a label is not a number (regression). Error{bad_usage} if the labels of a registered set or generator do
// not fit the task.
Dataset load_dataset(const std::string& name, const LoadOptions& options = {}, const Exec& exec = {});

// Properties of the result of load_dataset. Registered sets and generators are not loaded for this (their
// files may be missing); other files are read.
struct DatasetFacts {
    std::string source_sha256;
    std::uint64_t features = 0;
    std::uint64_t train_rows = 0;
    std::uint64_t test_rows = 0;
    std::uint64_t classes = 0;
    bool uses_split_seed = false;  // the parts depend on the split seed
    std::string origin = {};       // where the rows come from, if a record should name it
};
DatasetFacts dataset_facts(const std::string& name, const LoadOptions& options, const Exec& exec);

}  // namespace imka
