#include "imka/deploy/on_chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

using graph::Graph;
using graph::StaticMatrix;

bool is_projection(const StaticMatrix& matrix) {
    std::string name = matrix.name;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name.find("projection") != std::string::npos || name.find("omega") != std::string::npos;
}

std::size_t last_node(const std::vector<StaticMatrix>& matrices) {
    std::size_t last = 0;
    for (const auto& m : matrices) last = std::max(last, m.uses.back().node);
    return last;
}

std::vector<std::string> listed(std::string_view choice) {
    std::vector<std::string> names;
    while (!choice.empty()) {
        const auto comma = choice.find(',');
        names.emplace_back(choice.substr(0, comma));
        choice.remove_prefix(comma == std::string_view::npos ? choice.size() : comma + 1);
    }
    return names;
}

// The name of the matrix, of its weight or of a node that uses it.
bool has_name(const Graph& graph, const StaticMatrix& m, const std::string& name) {
    return m.name == name || graph.values[m.weight].name == name ||
           std::ranges::any_of(m.uses, [&](const auto& use) { return graph.nodes[use.node].name == name; });
}

[[noreturn]] void fail_choice(const std::vector<StaticMatrix>& matrices, std::string_view what) {
    constexpr std::size_t kMost = 20;
    std::vector<std::string> names;
    for (std::size_t m = 0; m < std::min(matrices.size(), kMost); ++m) names.push_back(matrices[m].name);
    if (matrices.size() > kMost) names.push_back(fmt::format("... ({} in all)", matrices.size()));
    fail(ErrorCode::bad_config, fmt::format("{}; matrices of the model: {}", what, fmt::join(names, ", ")));
}

using Wanted = std::function<bool(const StaticMatrix&)>;

Wanted wanted(const Graph& graph, const std::vector<StaticMatrix>& matrices, std::string_view choice) {
    if (choice == "all") return [](const StaticMatrix&) { return true; };
    if (choice == "projection") return is_projection;
    if (choice == "all-but-last") {
        const auto last = last_node(matrices);
        return [last](const StaticMatrix& m) { return m.uses.back().node != last; };
    }
    const auto names = listed(choice);
    for (const auto& name : names) {
        const auto named = [&](const StaticMatrix& m) { return has_name(graph, m, name); };
        if (std::ranges::none_of(matrices, named))
            fail_choice(matrices, fmt::format("no matrix or node {}", in_quotes(name)));
    }
    return [&graph, names](const StaticMatrix& m) {
        return std::ranges::any_of(names, [&](const auto& name) { return has_name(graph, m, name); });
    };
}

// Checks the sizes after the first axis, which counts inferences.
void check_fit(const graph::Value& input, const graph::Shape& example) {
    const auto& dims = *input.type.dims;
    bool fits = dims.size() == example.size();
    for (std::size_t a = 1; fits && a < dims.size(); ++a)
        fits = !dims[a].known() || dims[a].size == example[a];
    if (!fits)
        fail(ErrorCode::bad_data,
             fmt::format("input {} is {}; it cannot have shape {}", in_quotes(input.name),
                         graph::to_text(input.type), graph::to_text(example)));
}

graph::Shape one_inference(const graph::Value& input, const graph::Shape* example) {
    if (!input.type.dims && example == nullptr)
        fail(ErrorCode::bad_data, fmt::format("the shape of the input {} is unknown", in_quotes(input.name)));
    if (!input.type.dims) return *example;
    if (example != nullptr) check_fit(input, *example);
    graph::Shape shape;
    for (std::size_t a = 0; a < input.type.dims->size(); ++a) {
        const auto& dim = (*input.type.dims)[a];
        if (!dim.known() && a > 0 && (example == nullptr || a >= example->size()))
            fail(ErrorCode::bad_data, fmt::format("input {} is {}: the size of axis {} is unknown",
                                                  in_quotes(input.name), graph::to_text(input.type), a));
        shape.push_back(dim.known() ? dim.size : a == 0 ? 1 : (*example)[a]);
    }
    return shape;
}

}  // namespace

std::vector<std::string> choose_matrices(const Graph& graph, std::string_view choice) {
    const auto matrices = graph::static_matrices(graph);
    if (matrices.empty())
        fail(ErrorCode::bad_config, "the model has no matrix with constant weights to place on a chip");
    const auto on_chip = wanted(graph, matrices, choice);
    std::vector<std::string> names;
    for (const auto& m : matrices) {
        if (on_chip(m)) names.push_back(m.name);
    }
    if (names.empty()) fail_choice(matrices, fmt::format("no matrix fits {}", in_quotes(choice)));
    return names;
}

MatrixList matrix_list(const Graph& graph, std::span<const std::string> names) {
    const auto known = graph::matrices_by_name(graph);
    MatrixList list;
    for (const auto& name : names) {
        const auto found = known.find(name);
        if (found == known.end())
            fail(ErrorCode::bad_data,
                 fmt::format("the graph has no matrix {} for inputs of these shapes", in_quotes(name)));
        const auto& m = found->second;
        std::size_t vectors = 0;
        for (const auto& use : m.uses) vectors += static_cast<std::size_t>(use.rows.value_or(1));
        const auto calls = m.uses.size();
        list.push_back(
            {name, m.inputs, m.outputs, calls, std::max<std::size_t>(1, (vectors + calls - 1) / calls)});
    }
    return list;
}

Graph with_one_inference(const Graph& graph, const std::vector<graph::Shape>& examples) {
    std::vector<graph::Shape> shapes;
    for (std::size_t k = 0; k < graph.inputs.size(); ++k)
        shapes.push_back(
            one_inference(graph.values[graph.inputs[k]], examples.empty() ? nullptr : &examples[k]));
    return graph::simplified(graph::with_input_shapes(graph, shapes));
}

}  // namespace imka
