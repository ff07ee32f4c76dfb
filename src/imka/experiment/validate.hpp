// The FP32 half against published per-seed results: every cell (data set, kernel, sampler, size) is run again
// by the experiments ridge_measured and liu, and its means are compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/metrics/intervals.hpp"
#include "imka/omega/omega.hpp"

namespace imka {

enum class Metric { acc, err };
template <>
struct EnumNames<Metric> {
    static constexpr std::string_view what = "metric";
    static constexpr std::string_view values[] = {"acc", "err"};
};

// One published mean and ours beside it.
struct Cell {
    std::string dataset;  // as published; "ijcnn1-liu-replication" runs on ijcnn1
    Kernel kernel = Kernel::rbf;
    Sampler sampler = Sampler::rff;
    std::int64_t log_ratio = 0;
    std::int64_t m = 0;
    Metric metric = Metric::acc;
    Summary published;
    Summary ours;
    bool random_split = false;  // the published split is not known; ours is drawn anew for each seed
    // (ours - published) / combined standard error.
    double deviation() const;
    bool agrees() const;  // within 3 combined standard errors
    // Why a cell may disagree, with the number that says so.
    std::string reason() const;
};

struct ValidateConfig {
    // CSV: dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value
    std::filesystem::path measured;
    std::filesystem::path data_dir;
    std::filesystem::path output;       // holds a folder of records for each experiment (run_sweep)
    std::vector<std::string> datasets;  // empty: all in the file
    std::vector<std::uint64_t> seeds = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::function<void(const SweepStatus&)> on_status = {};
};

// Published cells of a backend without ours, in the order of the file. Error{bad_data} with the line for a
// malformed file.
std::vector<Cell> read_published(const std::filesystem::path& path, std::string_view backend = "fp32");

// Runs what the records do not have and fills in ours. A random split is drawn anew for each seed: the
// published split is not known, so its effect belongs into the spread. Error{bad_data} for a cell that no
// experiment runs, or whose run failed.
std::vector<Cell> validate_fp32(const ValidateConfig& config, const Exec& exec);

}  // namespace imka
