// The tasks of Long Range Arena: labelled sequences of bytes. Generated tasks are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

// tiny: a generated task for tests; which of four symbols is most frequent.
enum class LraTask { listops, pathfinder32, imdb, cifar10, retrieval, tiny };
enum class LraPart { train, valid, test };
}  // namespace imka

template <>
struct imka::EnumNames<imka::LraTask> {
    static constexpr std::string_view what = "task";
    static constexpr std::string_view values[] = {"listops", "pathfinder32", "imdb",
                                                  "cifar10", "retrieval",    "tiny"};
};
template <>
struct imka::EnumNames<imka::LraPart> {
    static constexpr std::string_view what = "part";
    static constexpr std::string_view values[] = {"train", "valid", "test"};
};

namespace imka {

struct LraTaskInfo {
    LraTask task;
    std::string_view title;  // "gray CIFAR-10, 1,024 pixels"
    bool pixels;             // values are gray levels; otherwise symbols
    std::int64_t symbols;    // values are 0..symbols - 1
    std::int64_t length;     // maximum tokens per document
    std::int64_t documents;  // per example
    std::int64_t classes;
    bool generated;  // needs no files
};
const LraTaskInfo& lra_task(LraTask task);
std::span<const LraTaskInfo> lra_tasks();

// Where the examples come from.
struct LraSource {
    std::filesystem::path data_dir;            // of the data sets; generated tasks need none
    std::uint64_t seed = 0;                    // of generators, and of the held-back part of imdb
    std::optional<std::size_t> examples = {};  // only this many of the part, drawn by the seed; none: all
};

// Labelled documents. Values beyond the end of a document are 0.
struct LraData {
    LraTask task = LraTask::tiny;
    std::string origin;                  // where the examples come from, for results
    Matrix<std::uint8_t> tokens;         // documents x length
    std::vector<std::uint32_t> lengths;  // of each document
    // Documents of example i: the first of each pair; both for tasks of two documents.
    struct Example {
        std::uint32_t first = 0;
        std::uint32_t second = 0;
        std::uint8_t label = 0;
    };
    std::vector<Example> examples;
};

// Error{missing_part} naming the files if they are missing; Error{bad_data} with the position if a file is
// not valid.
LraData load_lra(LraTask task, LraPart part, const LraSource& source, const Exec& exec);

}  // namespace imka
