// A model on a chip: its graph, the chip with its matrices, and functions to run and reprogram it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/driver.hpp"
#include "imka/chip/simulate/cuda_emulator.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/model_batches.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

struct DeployedModel {
    graph::Graph graph;
    std::vector<std::string> matrices;       // static matrices of the graph, in the order of the chip's plan
    std::vector<graph::Shape> input_shapes;  // of one inference, in the order of the graph's inputs
    ProgrammedChip chip;
    BuildConfig build;  // how the chip was built
};

struct DeployOptions {
    std::string on_chip = "all";  // choose_matrices
    MapOptions map;
    std::vector<graph::Shape> input_shapes = {};  // for sizes that the graph leaves open; may be empty
    std::optional<Mapping> mapping = {};          // used instead of `map` (given_mapping)
};

// Placement of the matrices of a model. Needs no calibration inputs and changes no weights.
struct ModelPlacement {
    graph::Graph graph;                 // as given
    graph::Graph inference;             // with the shapes of one inference
    std::vector<std::string> matrices;  // chosen, in the order of the mapping
    Pipeline pipeline;                  // the steps of one inference
    MapResult result;
};
// Error{bad_config} if the matrices do not fit the chip; Error{bad_data} if a given mapping has different
// matrices.
ModelPlacement place_model(graph::Graph graph, const ChipSpec& chip, const DeployOptions& options);

// Calibrates with the inputs (config.calibration_inputs inferences drawn by the seed; a note if there are
// fewer), programs the chip, and reads it at config.read_seconds. range_scaling, lost_rows, replicas and
// replication of the config have no effect. The same arguments give the same chip.
DeployedModel deploy(ModelPlacement placement, const ChipSpec& chip, const BuildConfig& config,
                     std::span<const graph::Tensor> inputs, std::uint64_t seed, const Exec& exec);

// The same model on another chip with the same cores, calibrated with the inputs kept in the plan.
struct Rebuild {
    ChipSpec spec;
    BuildConfig build;
    std::uint64_t seed = 0;
};
DeployedModel rebuilt(const DeployedModel& model, const Rebuild& rebuild, const Exec& exec);

// The cells of every matrix, with names, call sites and vectors per inference.
Mapping mapping_of(const DeployedModel& model);

// The steps of one inference of a graph with known shapes; mapped matrix k has the name matrices[k].
Pipeline pipeline_of(const graph::Graph& inference, std::span<const std::string> matrices);

// Multiplies on a chip. Every use of a matrix has its own noise, derived from the seed.
class ChipHook : public ModelHook {
public:
    ChipHook(ChipDriver& driver, std::uint64_t seed);
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override;
    bool takes_gpu_rows() const override { return gpu_driver_ != nullptr; }
    bool multiply_on_gpu(const ModelCall& call, const cuda::ProductRows& rows, const Exec& exec) override;
    const Trace& trace() const { return trace_; }
    double multiply_adds() const { return multiply_adds_; }

private:
    void count(const ModelCall& call, std::size_t rows, const Trace& trace, const Exec& exec);

    ChipDriver& driver_;
    GpuDriver* gpu_driver_;  // the same driver if it is a GpuDriver; otherwise null
    std::uint64_t seed_;
    Trace trace_;
    double multiply_adds_ = 0.0;
};

struct ModelRun {
    std::vector<graph::Tensor> outputs;
    Trace trace;                            // of the chip
    double multiply_adds = 0.0;             // of the products on the chip: weights times rows
    DigitalWork digital;                    // all other operators of the model
    double host_bytes = 0.0;                // inputs and outputs of the model, and values between chips
    std::vector<std::string> on_processor;  // names of nodes that have no variant for the GPU of exec.device
};
// A deployed model prepared for many runs.
class ModelRunner {
public:
    // model must outlive the runner.
    explicit ModelRunner(const DeployedModel& model) : model_(model), batches_(model.graph, model.matrices) {}
    // `seed`: of the noise of products. Error{bad_data} if the driver has a different number of matrices or
    // the inputs do not fit.
    ModelRun run(ChipDriver& driver, std::span<const graph::TensorView> inputs, std::uint64_t seed,
                 const Exec& exec);
    ModelRun run(ChipDriver& driver, std::span<const graph::Tensor> inputs, std::uint64_t seed,
                 const Exec& exec) {
        return run(driver, views_of(inputs), seed, exec);
    }

private:
    const DeployedModel& model_;
    BatchRunner batches_;
};
// One run.
ModelRun run_model(const DeployedModel& model, ChipDriver& driver, std::span<const graph::Tensor> inputs,
                   std::uint64_t seed, const Exec& exec);

}  // namespace imka
