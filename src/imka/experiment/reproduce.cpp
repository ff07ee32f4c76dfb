#include "imka/experiment/reproduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/sha256.hpp"
#include "imka/cuda/status.hpp"
#include "imka/experiment/performer_data.hpp"
#include "imka/experiment/record.hpp"
#include "imka/graph/tensor_file.hpp"
#include "imka/train/evaluate.hpp"

namespace imka {
namespace {

constexpr std::size_t kQkvExamples = 50;                       // as published
constexpr std::size_t kMostBytesRead = std::size_t{1} << 30U;  // of a checkpoint or of adopted records

// The file with queries, keys and values of the last layer; written if missing. It contains only numbers, no
// text of the examples.
std::filesystem::path qkv_file(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                               const std::filesystem::path& data_dir, const Exec& exec) {
    if (!std::filesystem::exists(checkpoint)) fail_missing_model(checkpoint);
    const auto hash = sha256_hex(read_file(checkpoint, kMostBytesRead)).substr(0, 12);
    auto file = folder / fmt::format("{}-{}.npy", checkpoint.stem().string(), hash);
    if (std::filesystem::exists(file)) return file;
    const auto model = load_performer(checkpoint);
    // Half of the examples have at least the median length.
    const auto data = load_lra(parse_enum<LraTask>(model.task), LraPart::test,
                               {.data_dir = data_dir, .examples = 2 * kQkvExamples}, exec);
    const auto qkv = last_layer_qkv(model, data, kQkvExamples, exec);
    std::filesystem::create_directories(folder);
    graph::write_tensor(file, qkv);
    return file;
}

SweepPlan plan_changed(const std::string& name, const std::string& qkv_of, const ReproduceConfig& config,
                       const Exec& exec) {
    auto experiment = find_experiment(name);
    if (!qkv_of.empty()) {
        const auto file =
            qkv_file(models_folder(config.models) / qkv_of, config.output / name, config.data_dir, exec);
        override_setting(experiment, "dataset", file.string());
    }
    if (!config.seeds.empty()) override_setting(experiment, "seeds", config.seeds);
    if (!config.models.empty() && run_kind(experiment.kind).tests_models)
        override_setting(experiment, "models", config.models);
    for (const auto& [key, value] : config.changes) override_setting(experiment, key, value);
    auto plan = plan_sweep(experiment, config.data_dir, exec);
    std::erase_if(plan.runs, [&](const PlannedRun& run) {
        return !is_chosen(config.datasets, plan.points[run.point].config.dataset);
    });
    return plan;
}

std::map<std::string, Record> finished_runs(const std::filesystem::path& folder) {
    std::map<std::string, Record> runs;
    if (!std::filesystem::is_directory(folder)) return runs;
    for (auto& record : read_records(folder).records) {
        if (record.ok()) runs.try_emplace(record.key, record);
    }
    return runs;
}

}  // namespace

bool is_chosen(const std::vector<std::string>& datasets, const std::string& name) {
    return datasets.empty() || std::ranges::find(datasets, name) != datasets.end();
}

std::filesystem::path models_folder(const std::string& models) {
    return models.empty() ? PerformerSource{}.models : models;
}

SweepPlan plan_reproduction(const std::string& name, const std::string& qkv_of, const ReproduceConfig& config,
                            const Exec& exec) {
    try {
        return plan_changed(name, qkv_of, config, exec);
    } catch (const cuda::DeviceLost&) {
        throw;
    } catch (const Error& e) {
        if (qkv_of.empty() || e.code() != ErrorCode::missing_part) throw;
        SweepPlan plan;
        plan.missing.emplace_back(e.what());
        return plan;
    }
}

void adopt_runs(const SweepPlan& plan, const std::vector<std::filesystem::path>& others,
                const std::filesystem::path& folder) {
    auto have = finished_runs(folder);
    std::string lines;
    for (const auto& other : others) {
        if (other == folder) continue;
        const auto runs = finished_runs(other);
        for (const auto& planned : plan.runs) {
            const auto run = runs.find(planned.key);
            if (run == runs.end() || !have.try_emplace(planned.key, run->second).second) continue;
            auto record = run->second;
            record.experiment = plan.experiment.name;
            lines += to_json_line(record) + "\n";
        }
    }
    if (lines.empty()) return;
    const auto file = folder / "records" / "adopted.jsonl";
    std::filesystem::create_directories(file.parent_path());
    write_file_atomic(file, (std::filesystem::exists(file) ? read_file(file, kMostBytesRead) : "") + lines);
}

}  // namespace imka
