// Options of verbs that work on a list of matrices: a known network, text or a file.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "imka/deploy/matrix_list.hpp"

namespace imka::app {

struct MatrixArgs {
    std::string network;
    std::string shapes;
    std::filesystem::path file;
};
// --network, --shapes, --matrices.
void add_matrix_options(CLI::App& verb, MatrixArgs& args);

struct NamedMatrices {
    std::string name;
    MatrixList list;
};
// Error{bad_usage} unless exactly one of the options was given.
NamedMatrices read_matrices(const MatrixArgs& args);

}  // namespace imka::app
