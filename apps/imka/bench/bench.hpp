// Shared by the benchmarks: alternating rounds, ratios with intervals, limits of the machine, results.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka::app {

// Other libraries, called through a Python interpreter: a child process runs one round per request, so rounds
// of both sides can alternate. The child runs bench/peers/peer.py.

// Exactly one of value, missing and error is set.
struct PeerAnswer {
    std::optional<double> value;  // seconds of a round, or the result of a check
    std::string missing;          // package that provides the peer
    std::string error;
};

class Peer {
public:
    // Starts the interpreter with the script; the first reply reports a missing interpreter.
    Peer(const std::string& python, const Exec& exec);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    // {"python": "3.11.2", "sklearn": "1.2.1", "torch": null, ...}; empty if the child does not reply.
    std::string hello();
    PeerAnswer run(const std::string& name, const std::string& sizes);
    PeerAnswer check(const std::string& name, const std::string& sizes);
    // Drops the data kept between rounds.
    void forget();

private:
    void start(const std::string& python);
    PeerAnswer ask(const std::string& line);
    // The reply without its line break; nullopt if the child has ended. Error{interrupted} on cancellation.
    std::optional<std::string> exchange(const std::string& line);

    Exec exec_;
    pid_t child_ = -1;
    int to_child_ = -1;
    int from_child_ = -1;
    std::string received_;
};

// The given interpreter, or the first of /usr/bin/python3 and python3 that has scikit-learn, or the first
// that starts. nullptr if none starts.
std::unique_ptr<Peer> find_peer(const std::string& python, const Exec& exec);

// Peak rates of this machine, measured with our own operations in the same run. Per second.
struct MachineLimits {
    double sgemm_core = 0.0;    // float operations, one core
    double sgemm_all = 0.0;     // float operations, all cores
    double panel_all = 0.0;     // float operations of products in panels (ops/panel), all cores
    double syrk_all = 0.0;      // float operations of aᵀa (n² k for k rows of n), all cores
    double cos_sin_core = 0.0;  // pairs of a cosine and a sine, one core
    double cos_sin_all = 0.0;
    double copy_all = 0.0;   // bytes copied; each is read once and written once
    double write_all = 0.0;  // bytes written
};
MachineLimits measure_limits(const Exec& exec, int repeats);

// Element-wise maximum of two measurements: a limit is the rate without disturbance.
MachineLimits best_of(const MachineLimits& a, const MachineLimits& b);

// Measures only the rate of aᵀa again: a long benchmark needs it before and after.
double measure_syrk(const Exec& exec, int repeats);

struct BenchSetup {
    Exec exec;                                    // on the processor
    int gpu = 0;                                  // number of the GPU for the benchmarks cuda_*
    bool quick = false;                           // small sizes and few rounds, for tests
    int rounds = 9;                               // timed rounds per library
    std::uint64_t stream_rows = 0;                // rows of the benchmark `stream`
    Peer* peer = nullptr;                         // nullptr: no interpreter
    std::map<std::string, std::string> versions;  // versions of the peer's libraries
    MachineLimits limits;
    int limit_repeats() const { return quick ? 1 : 7; }
    Exec exec_on_gpu() const;
};

// Sizes by name, passed unchanged to the peer and to the results.
using Sizes = std::vector<std::pair<std::string, double>>;
std::string sizes_json(const Sizes& sizes);

// A competitor.
struct Rival {
    std::string name;
    std::string peer = {};  // function to run in the interpreter, and its package
    std::string package = {};
    std::string folder = {};          // files that the function reads and writes
    std::function<void()> body = {};  // or: function to run in this process
};

// Sizes, folder and number of the GPU as the peer gets them.
std::string request_json(const BenchSetup& setup, const Rival& rival, const Sizes& sizes);

struct RivalResult {
    std::string name;
    std::string missing;          // package that provides it; no times then
    std::string error;            // why it failed; no times then
    std::vector<double> seconds;  // one per round
    MedianInterval ratio;         // their time / ours, per round
    std::optional<double> check;  // the peer's check of its own result
};

struct BenchCheck {
    std::string what;
    double value = 0.0;
    double bound = 0.0;
    bool ok = false;
};

// A value that must not exceed a bound.
inline BenchCheck check_at_most(const std::string& what, double value, double bound) {
    return {.what = what, .value = value, .bound = bound, .ok = value <= bound};
}

struct BenchResult;
// For peers that compare their outputs with ours: the largest difference they report. Not ok if none did.
BenchCheck check_peers(const BenchResult& result, double bound);

struct BenchTarget {
    std::string what;
    double wanted = 0.0;
    double reached = 0.0;
    bool at_most = false;  // else: at least
    bool met() const { return at_most ? reached <= wanted : reached >= wanted; }
};

struct BenchResult {
    std::string name;   // as on the command line
    std::string title;  // for display
    Sizes sizes;
    std::vector<double> seconds;  // ours, one per round; empty: not run
    std::vector<RivalResult> rivals;
    std::string limit;           // the work that sets the limit
    double limit_seconds = 0.0;  // its minimum time, from the best limits of the run; 0: none
    std::function<double(const MachineLimits&)> limit_time = {};
    std::vector<BenchTarget> targets;
    BenchCheck check;
    std::vector<std::pair<std::string, double>> more;  // further numbers
    std::string note = {};                             // shown next to the targets
};

// Warms up both sides, runs alternating rounds with changing order, then asks the peers to check their
// results. Fills seconds and rivals of the result.
void run_rounds(const BenchSetup& setup, const std::function<void()>& ours, const std::vector<Rival>& rivals,
                BenchResult& result);

// A new folder that the destructor removes.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

double seconds_of(const std::function<void()>& body);
// Minimum time of several repeats: other load only adds time.
double least_seconds(int repeats, const std::function<void()>& body);

// Standard normal numbers.
Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed);

// The benchmarks, one function per name of `imka bench`.
std::vector<BenchResult> bench_features(const BenchSetup& setup);
std::vector<BenchResult> bench_projection(const BenchSetup& setup);
std::vector<BenchResult> bench_sorf(const BenchSetup& setup);
std::vector<BenchResult> bench_product(const BenchSetup& setup);
std::vector<BenchResult> bench_one_row(const BenchSetup& setup);
std::vector<BenchResult> bench_ridge(const BenchSetup& setup);
std::vector<BenchResult> bench_normals(const BenchSetup& setup);
std::vector<BenchResult> bench_fwht(const BenchSetup& setup);
std::vector<BenchResult> bench_stream(const BenchSetup& setup);
std::vector<BenchResult> bench_chip(const BenchSetup& setup);
std::vector<BenchResult> bench_deploy(const BenchSetup& setup);
std::vector<BenchResult> bench_attention(const BenchSetup& setup);
// Error{missing_part} without a GPU.
std::vector<BenchResult> bench_cuda_chip(const BenchSetup& setup);
std::vector<BenchResult> bench_cuda_training(const BenchSetup& setup);
std::vector<BenchResult> bench_cuda_performer(const BenchSetup& setup);
std::vector<BenchResult> bench_cuda_features(const BenchSetup& setup);
std::vector<BenchResult> bench_cuda_ridge(const BenchSetup& setup);
std::vector<BenchResult> bench_cuda_attention(const BenchSetup& setup);
bool has_gpu();

// hermes with converters that neither round nor saturate: products are emulated with few matrix products.
ChipSpec linear_chip();

// Measures dense and structured projection for many shapes and prints them next to the predictions of the
// cost model, with constants fitted to this machine.
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
