#include "imka/deploy/deployed_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/program/calibrate_plan.hpp"
#include "imka/deploy/given_mapping.hpp"
#include "imka/deploy/model_calibration.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/graph/static_matrices.hpp"

namespace imka {
namespace {

// Weights of the named matrices, inputs x outputs.
std::vector<Matrix<float>> weights_of(const graph::Graph& graph, std::span<const std::string> names) {
    const auto known = graph::matrices_by_name(graph);
    std::vector<Matrix<float>> weights;
    for (const auto& name : names) weights.push_back(graph::weights_of(graph, known.at(name)));
    return weights;
}

// A seed per call site: regions of one core share its converters.
std::uint64_t seed_of(std::uint64_t seed, const ModelCall& call) {
    return derived_seed(seed, call.matrix + static_cast<std::uint32_t>(kMostMatrices) * call.use);
}

// Calibrates the plan with the samples and builds its chip.
ProgrammedChip built_chip(Plan plan, std::span<const Matrix<float>> samples, const Rebuild& how,
                          const Exec& exec) {
    std::vector<Calibration> calibrations;
    for (std::uint32_t k = 0; k < samples.size(); ++k)
        calibrations.push_back({.matrix = k,
                                .sample = samples[k].view(),
                                .config = calibration_of(how.build, samples[k].view()),
                                .seed = how.seed});
    plan = calibrated(std::move(plan), calibrations, exec);
    return build_chip(std::move(plan), steps_of(how.build, {}), how.seed, exec);
}

}  // namespace

ModelPlacement place_model(graph::Graph graph, const ChipSpec& chip, const DeployOptions& options) {
    ModelPlacement out;
    out.inference = with_one_inference(graph, options.input_shapes);
    out.matrices = choose_matrices(graph, options.on_chip);
    out.pipeline = pipeline_of(out.inference, out.matrices);
    const auto list = matrix_list(out.inference, out.matrices);
    out.result = options.mapping ? given_mapping(*options.mapping, list, grid_of(chip))
                                 : map_matrices(list, grid_of(chip), out.pipeline, options.map);
    out.graph = std::move(graph);
    return out;
}

DeployedModel deploy(ModelPlacement placement, const ChipSpec& chip, const BuildConfig& config,
                     std::span<const graph::Tensor> inputs, std::uint64_t seed, const Exec& exec) {
    validate(config);
    DeployedModel model{
        .graph = std::move(placement.graph), .matrices = std::move(placement.matrices), .build = config};
    for (const auto id : placement.inference.inputs)
        model.input_shapes.push_back(graph::known_shape(placement.inference.values[id].type).value());
    auto spec = chip;
    spec.chips = static_cast<int>(placement.result.mapping.grid.chips);
    auto plan = plan_of(placement.result.mapping, spec, weights_of(model.graph, model.matrices));
    const auto samples =
        collect_samples(model.graph, model.matrices, plan, inputs, {.config = config, .seed = seed}, exec);
    model.chip = built_chip(std::move(plan), samples, {.spec = spec, .build = config, .seed = seed}, exec);
    return model;
}

DeployedModel rebuilt(const DeployedModel& model, const Rebuild& rebuild, const Exec& exec) {
    DeployedModel out{.graph = model.graph,
                      .matrices = model.matrices,
                      .input_shapes = model.input_shapes,
                      .build = rebuild.build};
    auto plan = model.chip.plan;
    plan.spec = rebuild.spec;
    std::vector<Matrix<float>> samples;
    for (auto& matrix : plan.matrices) samples.push_back(std::move(matrix.inputs));
    out.chip = built_chip(std::move(plan), samples, rebuild, exec);
    return out;
}

Mapping mapping_of(const DeployedModel& model) {
    const auto& plan = model.chip.plan;
    Mapping mapping{.grid = grid_of(plan.spec), .regions = plan.regions};
    const auto inference = with_one_inference(model.graph, model.input_shapes);
    for (auto& matrix : matrix_list(inference, model.matrices)) {
        const auto replicas = plan.matrices[mapping.matrices.size()].replicas;
        mapping.matrices.push_back({.shape = std::move(matrix), .replicas = replicas});
    }
    return mapping;
}

Pipeline pipeline_of(const graph::Graph& inference, std::span<const std::string> matrices) {
    const auto all = graph::static_matrices(inference);
    std::vector<std::size_t> numbers;
    for (const auto& name : matrices) {
        const auto found = std::ranges::find(all, name, &graph::StaticMatrix::name);
        if (found == all.end()) fail(ErrorCode::bad_config, fmt::format("no matrix {}", in_quotes(name)));
        numbers.push_back(static_cast<std::size_t>(found - all.begin()));
    }
    return pipeline_of(inference, numbers);
}

ChipHook::ChipHook(ChipDriver& driver, std::uint64_t seed)
    : driver_(driver), gpu_driver_(dynamic_cast<GpuDriver*>(&driver)), seed_(seed) {}

void ChipHook::count(const ModelCall& call, std::size_t rows, const Trace& trace, const Exec& exec) {
    trace_.add(trace);
    record(exec, trace);
    const auto shape = driver_.shape(call.matrix);
    multiply_adds_ +=
        static_cast<double>(rows) * static_cast<double>(shape.inputs) * static_cast<double>(shape.outputs);
}

bool ChipHook::multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                        MatrixView<float> y) {
    const auto trace = driver_.multiply(call.matrix, x, {seed_of(seed_, call), call.first_row}, exec, y);
    count(call, x.rows(), trace, exec);
    return true;
}

bool ChipHook::multiply_on_gpu(const ModelCall& call, const cuda::ProductRows& rows, const Exec& exec) {
    const auto trace =
        gpu_driver_->multiply_on_gpu(call.matrix, rows, {seed_of(seed_, call), call.first_row});
    count(call, rows.rows, trace, exec);
    return true;
}

ModelRun ModelRunner::run(ChipDriver& driver, std::span<const graph::TensorView> inputs, std::uint64_t seed,
                          const Exec& exec) {
    if (driver.matrices() != model_.matrices.size())
        fail(ErrorCode::bad_data, fmt::format("the chip has {} matrices, the model {}", driver.matrices(),
                                              model_.matrices.size()));
    ChipHook hook(driver, seed);
    ModelRun run;
    run.outputs = batches_.run(inputs, &hook, exec);
    run.trace = hook.trace();
    run.multiply_adds = hook.multiply_adds();
    const auto mapping = mapping_of(model_);
    for (const auto& [pipeline, runs] : batches_.steps()) {
        add_work(digital_work(pipeline), runs, run.digital);
        run.host_bytes += runs * host_bytes(pipeline, mapping);
    }
    run.on_processor = batches_.on_processor();
    return run;
}

ModelRun run_model(const DeployedModel& model, ChipDriver& driver, std::span<const graph::Tensor> inputs,
                   std::uint64_t seed, const Exec& exec) {
    return ModelRunner(model).run(driver, inputs, seed, exec);
}

}  // namespace imka
