// imka doctor: describes the build and the machine, and lists missing parts and how to get them.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app.hpp"
#include "gnuplot.hpp"
#include "imka/base/device.hpp"
#include "imka/base/version.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/data/inspect.hpp"
#include "imka/experiment/mpi.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/linalg/gemm.hpp"
#include "machine.hpp"
#include "report_files.hpp"

namespace imka::app {
namespace {

// OpenBLAS falls back to old kernels on processors that it does not recognise. Returns the core type to
// select instead, or null.
Json faster_blas_core(const std::string& blas, const std::vector<std::string>& sets) {
    const auto has = [&](std::string_view name) { return std::ranges::find(sets, name) != sets.end(); };
    const bool old = blas.ends_with("core Prescott") || blas.ends_with("core Core2") ||
                     blas.ends_with("core Nehalem") || blas.ends_with("core Generic");
    if (!old || !has("avx2")) return {};
    return has("avx512f") ? "SkylakeX" : "Haswell";
}

// GPUs, versions, and the operations that can run on a GPU.
Json cuda_report() {
    const auto build = cuda::build();
    Json j = {{"compiled", cuda::is_compiled()},
              {"architectures", build.architectures},
              {"runtime", build.runtime},
              {"driver", build.driver},
              {"operations", cuda::is_compiled() ? Json{"normals", "chip products", "attention", "graphs",
                                                        "features", "Gram matrices", "ridge"}
                                                 : Json::array()},
              {"linear_algebra", cuda::linear_algebra_obstacle()},
              {"gpus", Json::array()}};
    int number = 0;
    for (const auto& gpu : cuda::gpus()) {
        j["gpus"].push_back({{"device", to_string(ComputeDevice{DeviceKind::cuda, number++})},
                             {"name", gpu.name},
                             {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                             {"multiprocessors", gpu.multiprocessors},
                             {"memory_gb", static_cast<double>(gpu.memory_bytes) * 1e-9},
                             {"free_gb", static_cast<double>(gpu.free_bytes) * 1e-9}});
    }
    return j;
}

std::string cuda_text(const Json& j) {
    if (!j["compiled"].get<bool>()) return "no: install the CUDA toolkit and rebuild";
    const auto driver = j["driver"].get<std::string>();
    return fmt::format("runtime {}, driver {}, compiled for {}: {}", j["runtime"].get<std::string>(),
                       driver.empty() ? "missing" : "for CUDA " + driver,
                       j["architectures"].get<std::string>(),
                       fmt::join(j["operations"].get<std::vector<std::string>>(), ", "));
}

std::string gpu_text(const Json& gpu) {
    return fmt::format("{}, compute capability {}, {} multiprocessors, {:.1f} GB, {:.1f} free",
                       gpu["name"].get<std::string>(), gpu["compute_capability"].get<std::string>(),
                       gpu["multiprocessors"].get<int>(), gpu["memory_gb"].get<double>(),
                       gpu["free_gb"].get<double>());
}

Json report(const Context& context) {
    const auto build = build_info();
    Json j;
    j["imka_version"] = build.version;
    j["build"] = {{"type", build.build_type}, {"compiler", build.compiler}, {"sanitize", build.sanitize}};
    j["blas"] = blas_description();
    j["cores"] = std::thread::hardware_concurrency();
    j["memory_gb"] = memory_gigabytes();
    j["instruction_sets"] = instruction_sets();
    j["faster_blas_core"] = faster_blas_core(j["blas"], instruction_sets());
    j["devices"] = {"cpu"};
    j["cuda"] = cuda_report();
    for (const auto& gpu : j["cuda"]["gpus"]) j["devices"].push_back(gpu["device"]);
    j["mpi"] = has_mpi();
    j["onnx"] = graph::has_onnx() ? Json(graph::onnx_release()) : Json();
    j["training"] = std::filesystem::exists(training_program());
    j["chart_js"] = std::filesystem::exists(default_chart_js());
    j["gnuplot"] = gnuplot_installed();
    j["data_dir"] = context.data_dir.string();
    j["data_dir_exists"] = std::filesystem::is_directory(context.data_dir);
    j["data_sets"] = Json::object();
    for (const auto& set : registered_sets()) {
        j["data_sets"][set.name] = is_present(set, context.data_dir) ? "present" : "missing";
    }
    return j;
}

std::string there_or(bool there, std::string_view package) {
    return there ? "present" : fmt::format("missing: apt-get install {}", package);
}

void print_report(const Json& j) {
    const auto text = [&](const char* key) { return j.at(key).get<std::string>(); };
    TextTable rows = {
        {"imka", text("imka_version")},
        {"build", fmt::format("{}, {}", j["build"]["type"].get<std::string>(),
                              j["build"]["compiler"].get<std::string>())},
        {"linear algebra", text("blas")},
        {"machine",
         fmt::format("{} cores, {:.1f} GB", j["cores"].get<unsigned>(), j["memory_gb"].get<double>())},
        {"instruction sets",
         fmt::format("{}", fmt::join(j["instruction_sets"].get<std::vector<std::string>>(), " "))},
        {"CUDA", cuda_text(j["cuda"])},
        {"MPI", j["mpi"].get<bool>() ? "yes" : "no: install libopenmpi-dev and rebuild"},
        {"ONNX models", j["onnx"].is_null() ? "no: install libonnx-dev and libprotobuf-dev and rebuild"
                                            : "yes, with ONNX " + text("onnx")},
        {"training (LibTorch)",
         j["training"].get<bool>() ? "yes, by imka-train" : "no: install libtorch-dev and rebuild"},
        {"pages (Chart.js)", there_or(j["chart_js"], "libjs-chart.js")},
        {"SVG and PDF (gnuplot)", there_or(j["gnuplot"], "gnuplot-nox")},
        {"data directory", text("data_dir").empty() ? "not set: use --data-dir or IMKA_DATA"
                           : j["data_dir_exists"].get<bool>()
                               ? text("data_dir")
                               : text("data_dir") + ": there is no such folder"}};
    const auto cuda_row = std::ranges::find(rows, "CUDA", [](const auto& row) { return row[0]; }) + 1;
    std::vector<std::vector<std::string>> gpus;
    for (const auto& gpu : j["cuda"]["gpus"])
        gpus.push_back({"  " + gpu["device"].get<std::string>(), gpu_text(gpu)});
    if (j["cuda"]["compiled"].get<bool>()) {
        const auto obstacle = j["cuda"]["linear_algebra"].get<std::string>();
        gpus.push_back(
            {"  cuBLAS, cuSOLVER",
             obstacle.empty() ? "present" : obstacle + ". Ridge fits compute their sums on the processor"});
    }
    rows.insert(cuda_row, gpus.begin(), gpus.end());
    if (!j["faster_blas_core"].is_null())
        rows.insert(
            rows.begin() + 3,
            {"", fmt::format("slow: these kernels do not use AVX2. OPENBLAS_CORETYPE={} in the environment "
                             "makes factorisations and products in double several times faster",
                             text("faster_blas_core"))});
    for (const auto& [name, state] : j["data_sets"].items()) {
        const bool there = state == "present";
        rows.push_back({"  " + name, there ? "present" : fmt::format("missing: imka data fetch {}", name)});
    }
    rows.push_back({"generated data", "ringnorm, twonorm, waveform (always available)"});
    print_out("{}", format_table(rows));
}

}  // namespace

void add_doctor(CLI::App& root, Context& context) {
    auto* verb =
        add_verb(root, "doctor", "Show version, build, machine and data sets, and how to get missing parts",
                 {"imka doctor", "imka doctor --data-dir data --json"});
    add_common_options(*verb, context);
    verb->callback([&context] {
        const auto j = report(context);
        if (context.json) {
            print_out("{}\n", j.dump());
        } else {
            print_report(j);
        }
    });
}

}  // namespace imka::app
