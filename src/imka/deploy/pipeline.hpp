// A network as steps with dependencies: which products and digital operations wait for which rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/matrix_list.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

// How a step reads the result of another one.
enum class Reads {
    rows,    // in step: a share of the rows is enough for the same share of the step's rows
    window,  // the same, some rows ahead (convolutions, pools)
    all,     // its first row needs all rows
};
template <>
struct EnumNames<Reads> {
    static constexpr std::string_view what = "way to read a result";
    static constexpr std::string_view values[] = {"rows", "window", "all"};
};

struct StepInput {
    std::size_t step = 0;  // an earlier one
    Reads reads = Reads::rows;
    std::size_t ahead = 0;  // rows that a window reads ahead
    bool operator==(const StepInput&) const = default;
};

// One operator of a network, or one call of a listed matrix.
struct PipelineStep {
    std::string name;
    std::string op;
    std::vector<StepInput> inputs;
    std::vector<StepInput> network = {};  // inputs of the network; `step`: index in Pipeline::inputs
    std::vector<std::uint32_t> matrices;  // in the mapping; several: a grouped convolution; none: digital
    std::size_t rows = 1;                 // of its result; vectors that each matrix multiplies; >= 1
    DigitalWork work;                     // per inference, without partial sums
    double input_bytes = 0.0;   // inputs of the network that no earlier step reads, one byte per value
    double output_bytes = 0.0;  // its result
    bool is_output = false;     // of the network
};

// Steps that have to wait for all steps of the previous chain; branches can run at the same time. Digital
// steps are in the branch of the last product before them.
struct Chain {
    std::vector<std::vector<std::size_t>> branches;
};

// An input of the network, for the host link.
struct NetworkInput {
    std::string name;
    std::size_t rows = 1;
    double bytes = 0.0;  // one per value
};

struct Pipeline {
    std::vector<PipelineStep> steps;  // inputs before their readers
    std::vector<Chain> chains;        // every step once
    std::vector<NetworkInput> inputs = {};
};

// Every node of the graph that depends on its inputs is a step. on_chip[k]: index in static_matrices(graph)
// of matrix k of the mapping. Error{bad_config} that names the node if a size is not known.
Pipeline pipeline_of(const graph::Graph& graph, std::span<const std::size_t> on_chip);

// One step per call site of the matrices. Digital work between them is unknown and left out.
// Error{bad_config} if they wait for each other in a cycle.
Pipeline pipeline_of(const MatrixList& list);

// The same with one more step per input of the network at the front, which sends the input over the host
// link. Readers wait for the rows that they need. Lists of matrices have no inputs: their first step sends
// its own inputs.
Pipeline with_input_steps(Pipeline pipeline);

// Of all steps.
DigitalWork digital_work(const Pipeline& pipeline);

// Bytes of a step over the host link in one inference.
struct LinkBytes {
    double before = 0.0;  // inputs of the network
    double after = 0.0;   // its result, if it is an output of the network or read on different chips
};
std::vector<LinkBytes> link_bytes(const Pipeline& pipeline, const Mapping& mapping);
// Of all steps.
double host_bytes(const Pipeline& pipeline, const Mapping& mapping);

// The first `rows` rows of `step` need this many first rows of the input.
std::size_t needed_rows(const Pipeline& pipeline, const PipelineStep& step, const StepInput& input,
                        std::size_t rows);

// One line per chain, or one per branch if there are several; branches that fork are indented. Digital
// operators are in brackets after the product before them; "(cached X)": reads the result of X from a chain
// before the previous one.
std::string pipeline_text(const Pipeline& pipeline);

// The chains of the steps, for code that builds pipelines.
std::vector<Chain> chains_of(const std::vector<PipelineStep>& steps);

}  // namespace imka
