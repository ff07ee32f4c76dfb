// What the benchmarks share: rounds that alternate, ratios with intervals, the machine's limits, results.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "bench/peer.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/metrics/medians.hpp"

namespace imka::app {

// What this machine can do at best, measured through our own operations in the same run. Per second.
struct MachineLimits {
    double sgemm_core = 0.0;    // float operations, one core
    double sgemm_all = 0.0;     // float operations, all cores
    double syrk_all = 0.0;      // float operations of aᵀa (n² k for k rows of n), all cores
    double cos_sin_core = 0.0;  // pairs of a cosine and a sine, one core
    double cos_sin_all = 0.0;
    double copy_all = 0.0;   // bytes copied: each is read once and written once
    double write_all = 0.0;  // bytes written
};
MachineLimits measure_limits(const Exec& exec, int repeats);

// The better of two measurements in everything: a limit is what the machine can do when nothing disturbs it.
MachineLimits best_of(const MachineLimits& a, const MachineLimits& b);

// The rate of aᵀa alone, again: a long benchmark wants it from before and after.
double measure_syrk(const Exec& exec, int repeats);

struct BenchSetup {
    Exec exec;
    bool quick = false;                           // small sizes and few rounds, for tests
    int rounds = 9;                               // timed rounds of each side
    std::uint64_t stream_rows = 0;                // of `stream`
    Peer* peer = nullptr;                         // null: no interpreter
    std::map<std::string, std::string> versions;  // of the peer's libraries
    MachineLimits limits;
    int limit_repeats() const { return quick ? 1 : 7; }
};

// Sizes by name; they go to the peer and into the results as they are.
using Sizes = std::vector<std::pair<std::string, double>>;
std::string sizes_json(const Sizes& sizes);

// Somebody to compare with.
struct Rival {
    std::string name;
    std::string peer = {};  // what to run in the interpreter, and its package
    std::string package = {};
    std::function<void()> body = {};  // or: what to run here
};

struct RivalResult {
    std::string name;
    std::string missing;          // what would bring it; then there are no times
    std::string error;            // why it did not work; then there are no times
    std::vector<double> seconds;  // one a round
    MedianInterval ratio;         // their time over ours, round by round
    std::optional<double> check;  // what the peer says of its own result
};

struct BenchCheck {
    std::string what;
    double value = 0.0;
    double bound = 0.0;
    bool ok = false;
};

struct BenchTarget {
    std::string what;
    double wanted = 0.0;
    double reached = 0.0;
    bool at_most = false;  // else: at least
    bool met() const { return at_most ? reached <= wanted : reached >= wanted; }
};

struct BenchResult {
    std::string name;   // as on the command line
    std::string title;  // for a person
    Sizes sizes;
    std::vector<double> seconds;  // ours, one a round
    std::vector<RivalResult> rivals;
    std::string limit;           // what the machine would have to do at least
    double limit_seconds = 0.0;  // in this time: limit_time of the best limits of the run; 0: none
    std::function<double(const MachineLimits&)> limit_time = {};
    std::vector<BenchTarget> targets;
    BenchCheck check;
    std::vector<std::pair<std::string, double>> more;  // further numbers
    std::string note = {};                             // beside the targets
};

// Warms both sides up, then runs rounds in turn, the order changing from round to round, and asks the peers
// for a check of their results. Fills seconds and rivals of the result.
void run_rounds(const BenchSetup& setup, const std::function<void()>& ours, const std::vector<Rival>& rivals,
                BenchResult& result);

double seconds_of(const std::function<void()>& body);
// The least time of some repeats: what else the machine does only adds.
double least_seconds(int repeats, const std::function<void()>& body);

// Standard normal numbers.
Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed);

// The benchmarks: one function for each name of `imka bench`.
std::vector<BenchResult> bench_features(const BenchSetup& setup);
std::vector<BenchResult> bench_projection(const BenchSetup& setup);
std::vector<BenchResult> bench_sorf(const BenchSetup& setup);
std::vector<BenchResult> bench_one_row(const BenchSetup& setup);
std::vector<BenchResult> bench_ridge(const BenchSetup& setup);
std::vector<BenchResult> bench_normals(const BenchSetup& setup);
std::vector<BenchResult> bench_fwht(const BenchSetup& setup);
std::vector<BenchResult> bench_stream(const BenchSetup& setup);
std::vector<BenchResult> bench_chip(const BenchSetup& setup);

// Measures dense and structured projection over many shapes and prints them beside the model that chooses
// between the two, with the constants that would fit this machine.
struct CalibrateOptions {
    bool quick = false;
    bool json = false;
    int rounds = 9;
};
void calibrate_projection(const CalibrateOptions& options, const Exec& exec);

Json to_json(const BenchResult& result);
Json to_json(const MachineLimits& limits);
TextTable table_rows(const std::vector<BenchResult>& results);

}  // namespace imka::app
