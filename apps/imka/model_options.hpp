// Options of verbs that read a model and arrays for its inputs.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/chip/programmed_chip.hpp"
#include "imka/graph/graph.hpp"

namespace imka::app {

// Reads an ONNX model, or a safetensors file of any name with a graph, a ridge model or a Performer.
graph::Graph load_network(const std::filesystem::path& file);

// Checks an output file for a deployed model: its folder exists, and other verbs recognise its name.
void check_plan_file(const std::filesystem::path& file, std::string_view option);

std::vector<std::string> names_of(const graph::Graph& graph, const std::vector<graph::ValueId>& ids);

// Maps each name to its file. Texts are NAME=FILE, or FILE if there is only one name.
std::map<std::string, std::string> files_of(const std::vector<std::string>& texts,
                                            const std::vector<std::string>& names, std::string_view option);

// The inputs of a model: FILE.npy, NAME=FILE.npy for each input, or one FILE.npz with all.
std::vector<graph::Tensor> read_inputs(const graph::Graph& graph, const std::vector<std::string>& texts,
                                       std::string_view option);

// Files for all outputs: one text for each, as in files_of. Checks that their folders exist.
std::map<std::string, std::string> output_files(const graph::Graph& graph,
                                                const std::vector<std::string>& texts);
// Writes the outputs that have a file.
void write_outputs(const graph::Graph& graph, std::span<const graph::Tensor> outputs,
                   const std::map<std::string, std::string>& files);

// "programmed", or "aged: read 1 d after programming"
std::string state_text(const ProgrammedChip& chip);

}  // namespace imka::app
