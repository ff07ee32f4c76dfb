// imka bench: speed compared with other libraries in the same run and with the limits of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "app.hpp"
#include "bench/bench.hpp"
#include "imka/base/error.hpp"
#include "imka/base/version.hpp"
#include "imka/linalg/gemm.hpp"
#include "machine.hpp"

namespace imka::app {
namespace {

struct Benchmark {
    std::string name;
    std::vector<BenchResult> (*run)(const BenchSetup&);
};

const std::vector<Benchmark>& benchmarks() {
    static const std::vector<Benchmark> list = {{"features", bench_features},
                                                {"projection", bench_projection},
                                                {"sorf", bench_sorf},
                                                {"ridge", bench_ridge},
                                                {"normals", bench_normals},
                                                {"fwht", bench_fwht},
                                                {"stream", bench_stream},
                                                {"chip", bench_chip},
                                                {"one_row", bench_one_row},
                                                {"product", bench_product},
                                                {"deploy", bench_deploy},
                                                {"attention", bench_attention},
                                                {"cuda_chip", bench_cuda_chip},
                                                {"cuda_training", bench_cuda_training},
                                                {"cuda_performer", bench_cuda_performer},
                                                {"cuda_features", bench_cuda_features},
                                                {"cuda_ridge", bench_cuda_ridge},
                                                {"cuda_attention", bench_cuda_attention}};
    return list;
}

struct BenchArgs {
    std::vector<std::string> names = {"all"};
    std::string python;
    std::uint64_t rows = 10'000'000;
    int rounds = 9;
    bool quick = false;
    bool calibrate = false;
};

// `features` on a GPU is cuda_features.
constexpr std::string_view kOnGpu = "cuda_";

bool wanted(const BenchArgs& args, const std::string& name) {
    // `all` leaves out what this machine cannot run.
    const bool on_gpu = name.starts_with(kOnGpu);
    return std::ranges::any_of(args.names, [&](const auto& n) {
        return n == name || (n == "cuda" && on_gpu) || (n == "all" && (!on_gpu || has_gpu()));
    });
}

// The names for --device cuda: benchmarks that need a GPU.
std::vector<std::string> names_on_gpu(const std::vector<std::string>& names) {
    std::vector<std::string> found;
    for (const auto& name : names) {
        if (name == "all" || name == "cuda") {
            found.emplace_back("cuda");
            continue;
        }
        const auto on_gpu = name.starts_with(kOnGpu) ? name : std::string(kOnGpu) + name;
        if (std::ranges::none_of(benchmarks(), [&](const auto& b) { return b.name == on_gpu; }))
            fail(ErrorCode::bad_usage,
                 fmt::format("the benchmark {} has no variant for GPUs; omit --device or choose another",
                             name));
        found.push_back(on_gpu);
    }
    return found;
}

Json machine_json(const Exec& exec) {
    return {{"cores", std::thread::hardware_concurrency()},
            {"threads", thread_count(exec)},
            {"memory_gb", memory_gigabytes()},
            {"instruction_sets", instruction_sets()},
            {"blas", blas_description()}};
}

void print_machine(const MachineLimits& l, const Exec& exec) {
    print_out("\nPeak rates of this machine, measured in this run ({} threads):\n\n", thread_count(exec));
    const auto giga = [](double v) { return fmt::format("{:.3g}", v * 1e-9); };
    print_out("{}", format_table({{"", "one core", "all"},
                                  {"sgemm, GFLOP/s", giga(l.sgemm_core), giga(l.sgemm_all)},
                                  {"products in panels, GFLOP/s", "", giga(l.panel_all)},
                                  {"syrk, GFLOP/s", "", giga(l.syrk_all)},
                                  {"cos and sin, G pairs/s", giga(l.cos_sin_core), giga(l.cos_sin_all)},
                                  {"copy, GB/s", "", giga(l.copy_all)},
                                  {"write, GB/s", "", giga(l.write_all)}}));
    print_out("\nBLAS: {}\n", blas_description());
}

void print_wrong(const std::vector<BenchResult>& results) {
    for (const auto& r : results) {
        if (!r.check.ok)
            print_error("imka: bench {}: WRONG: {} is {:.4g}, the bound is {:.4g}\n", r.name, r.check.what,
                        r.check.value, r.check.bound);
    }
}

void run(const BenchArgs& args, Context& context) {
    if (args.calibrate) {
        calibrate_projection({.quick = args.quick, .json = context.json, .rounds = args.rounds},
                             context.exec);
        return;
    }
    Exec on_processor = context.exec;
    on_processor.device = {};
    BenchSetup setup{.exec = on_processor,
                     .gpu = context.exec.device.number,
                     .quick = args.quick,
                     .rounds = args.quick ? std::min(args.rounds, 3) : args.rounds,
                     .stream_rows = args.rows};
    const auto peer = find_peer(args.python, on_processor);
    setup.peer = peer.get();
    const auto peers = peer ? Json::parse(peer->hello()) : Json::object();
    for (const auto& [name, version] : peers.items()) {
        if (version.is_string()) setup.versions[name] = version.get<std::string>();
    }
    setup.limits = measure_limits(on_processor, setup.limit_repeats());
    std::vector<BenchResult> results;
    for (const auto& b : benchmarks()) {
        if (!wanted(args, b.name)) continue;
        for (auto& r : b.run(setup)) results.push_back(std::move(r));
        if (!args.quick)
            setup.limits = best_of(setup.limits, measure_limits(on_processor, setup.limit_repeats()));
    }
    for (auto& r : results) {
        if (r.limit_time) r.limit_seconds = r.limit_time(setup.limits);
    }
    if (context.json) {
        Json j = {{"imka_version", build_info().version}, {"quick", args.quick}};
        j["machine"] = machine_json(context.exec);
        j["limits"] = to_json(setup.limits);
        j["peers"] = peers;
        j["results"] = Json::array();
        for (const auto& r : results) j["results"].push_back(to_json(r));
        print_out("{}\n", j.dump());
    } else {
        print_out("{}", format_table(table_rows(results)));
        print_out(
            "\nratio: their time / ours, median over alternating rounds. of limit: the minimum time of the "
            "products,\nfunctions or writes on this machine / our time.\n");
        print_machine(setup.limits, context.exec);
    }
    print_wrong(results);
    if (std::ranges::any_of(results, [](const auto& r) { return !r.check.ok; })) context.exit_code = 1;
}

}  // namespace

void add_bench(CLI::App& root, Context& context) {
    auto args = std::make_shared<BenchArgs>();
    auto* verb = add_verb(root, "bench",
                          "Compare speed with other installed libraries and with the limits of this machine",
                          {"imka bench features ridge", "imka bench features --device cuda",
                           "imka bench all --json > bench.json"});
    add_common_options(*verb, context);
    std::vector<std::string> names = {"all", "cuda"};
    for (const auto& b : benchmarks()) names.push_back(b.name);
    auto* names_option =
        verb->add_option("names", args->names, "Benchmarks to run; cuda: all that need a GPU");
    names_option->check(CLI::IsMember(names))->capture_default_str();
    add_device_option(*verb, "What to measure (with a GPU, features is cuda_features)", context);
    verb->add_option("--python", args->python,
                     "Python interpreter with the other libraries; default: /usr/bin/python3, then python3")
        ->check(CLI::ExistingFile);
    using range::between;
    bind_fields(
        *verb, {field("rounds", args->rounds,
                      between(1, 1000, "Timed rounds per library; at least six for a 95 % interval")),
                field("rows", args->rows, between(1000, 1e12, "Number of rows for the benchmark `stream`"))});
    verb->add_flag("--quick", args->quick, "Small sizes and three rounds: a smoke test, not a measurement");
    verb->add_flag("--calibrate", args->calibrate,
                   "Only time dense and structured projection for many shapes, compare with the cost model "
                   "that chooses between them, and fit its constants to this machine")
        ->excludes(names_option);
    verb->callback([args, verb, &context] {
        if (context.exec.device.kind == DeviceKind::cuda) {
            reject_without_effect(*verb, {"--calibrate"}, "it measures the processor");
            args->names = names_on_gpu(args->names);
            require_device(context);
        }
        if (!wanted(*args, "stream"))
            reject_without_effect(*verb, {"--rows"}, "only `stream` has a choice of rows");
        run(*args, context);
    });
}

}  // namespace imka::app
