#include "matrix_options.hpp"

#include <utility>

#include "imka/base/error.hpp"

namespace imka::app {

void add_matrix_options(CLI::App& verb, MatrixArgs& args) {
    verb.add_option("--network", args.network, "Matrices of a known network ('imka map --list')")
        ->type_name("NAME");
    verb.add_option("--shapes", args.shapes,
                    "Matrices as text: INPUTSxOUTPUTS, *N for N call sites, @N for N vectors per inference")
        ->type_name("TEXT");
    verb.add_option("--matrices", args.file,
                    "Matrices of a file: CSV (name,inputs,outputs[,calls[,vectors]]), YAML or JSON (a list "
                    "'matrices'), or weights as NPY or safetensors with one row per input")
        ->type_name("FILE");
}

NamedMatrices read_matrices(const MatrixArgs& args) {
    const auto given = static_cast<int>(!args.network.empty()) + static_cast<int>(!args.shapes.empty()) +
                       static_cast<int>(!args.file.empty());
    if (given != 1)
        fail(ErrorCode::bad_usage,
             "give one of --network NAME, --shapes TEXT and --matrices FILE ('imka map --list' lists "
             "networks)");
    if (!args.shapes.empty()) return {"shapes", parse_shapes(args.shapes)};
    if (!args.file.empty()) return {args.file.filename().string(), load_matrix_list(args.file)};
    auto network = known_network(args.network);
    return {network.name, std::move(network.matrices)};
}

}  // namespace imka::app
