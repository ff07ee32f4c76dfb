// Builds graphs in code: how imka's own models become graphs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

template <class T>
Tensor row_tensor(const std::vector<T>& values) {
    return make_tensor<T>({static_cast<std::int64_t>(values.size())}, values);
}

template <class T>
Tensor matrix_tensor(const Matrix<T>& m) {
    return make_tensor<T>({static_cast<std::int64_t>(m.rows()), static_cast<std::int64_t>(m.cols())},
                          m.values());
}

inline Tensor double_tensor(double value) {
    return make_tensor<double>({}, std::vector{value});
}

// Adds nodes one after another.
class Builder {
public:
    ValueId input(const std::string& name, Dims dims, DType type = DType::f32);
    ValueId constant(const std::string& name, Tensor value);
    // The node has the name of its output.
    ValueId node(const std::string& op, const std::string& output, std::vector<ValueId> inputs,
                 decltype(Node::attributes) attributes = {});
    ValueId cast(const std::string& output, ValueId x, DType type);
    // Infers types. Error{bad_data} if the graph is not valid.
    Graph finished(std::string name, std::vector<ValueId> outputs) &&;

private:
    Graph graph_;
};

}  // namespace imka::graph
