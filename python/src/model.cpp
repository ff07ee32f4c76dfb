// Networks: ONNX and ridge models run digitally, deployed models run on their chip.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "arrays.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/graph_file.hpp"
#include "imka/graph/simplify.hpp"
#include "interruptible.hpp"
#include "model_options.hpp"
#include "module.hpp"

namespace imka::python {
namespace {

using graph::DType;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using NumpyArray = nb::ndarray<nb::numpy>;

nb::dlpack::dtype numpy_type(DType type) {
    using Code = nb::dlpack::dtype_code;
    const auto bits = static_cast<std::uint8_t>(8 * graph::byte_size(type));
    const auto code = [&] {
        if (type == DType::bool_) return Code::Bool;
        if (graph::is_float(type)) return Code::Float;
        return to_string(type).starts_with('u') ? Code::UInt : Code::Int;
    }();
    return {static_cast<std::uint8_t>(code), bits, 1};
}

std::vector<std::int64_t> shape_of(const AnyArray& array) {
    std::vector<std::int64_t> shape;
    for (std::size_t a = 0; a < array.ndim(); ++a) shape.push_back(static_cast<std::int64_t>(array.shape(a)));
    return shape;
}

// Views the array, which must have the type of the value, as a tensor.
graph::TensorView tensor_of(const AnyArray& array, const graph::Value& value) {
    if (array.dtype() != numpy_type(value.type.type))
        fail(ErrorCode::bad_data, fmt::format("input {}: expected elements of type {}", in_quotes(value.name),
                                              to_string(value.type.type)));
    return {value.type.type, shape_of(array), static_cast<const std::byte*>(array.data())};
}

NumpyArray to_array(graph::Tensor tensor) {
    if (tensor.type == DType::bf16)
        fail(ErrorCode::bad_data, "an output has elements of type bf16, which NumPy does not have");
    const auto [values, owner] = owned(std::move(tensor));
    const std::vector<std::size_t> shape(values->shape.begin(), values->shape.end());
    return {values->bytes.data(), shape.size(), shape.data(), owner, nullptr, numpy_type(values->type)};
}

// A network, prepared for the shapes of its last inputs; or a deployed model and its chip.
class Model {
public:
    explicit Model(const std::filesystem::path& path) {
        if (path.extension() == ".plan") {
            deployed_ = load_deployed(path);
            graph_ = deployed_->graph;
        } else {
            graph_ = app::load_network(path);
        }
    }

    std::vector<graph::Tensor> run(const std::vector<graph::TensorView>& inputs, std::uint64_t seed,
                                   const Exec& exec) {
        const std::scoped_lock lock(mutex_);
        return deployed_ ? run_on_chip(inputs, seed, exec) : run_digitally(inputs, exec);
    }
    const graph::Graph& graph() const { return graph_; }
    const std::optional<DeployedModel>& deployed() const { return deployed_; }

private:
    std::vector<graph::Tensor> run_on_chip(const std::vector<graph::TensorView>& inputs, std::uint64_t seed,
                                           const Exec& exec) {
        if (!driver_) driver_ = make_emulator(deployed_->chip, Simulator::fast, exec);
        if (!runner_) runner_.emplace(*deployed_);
        return runner_->run(*driver_, inputs, seed, exec).outputs;
    }
    std::vector<graph::Tensor> run_digitally(const std::vector<graph::TensorView>& inputs, const Exec& exec) {
        std::vector<graph::Shape> shapes;
        for (const auto& view : inputs) shapes.push_back(view.shape);
        if (!executor_ || shapes != shapes_) {
            executor_.emplace(graph::simplified(graph::with_input_shapes(graph_, shapes)));
            shapes_ = shapes;
        }
        return executor_->run(inputs, nullptr, exec).outputs;
    }

    graph::Graph graph_;
    std::optional<DeployedModel> deployed_;
    std::unique_ptr<ChipDriver> driver_;
    std::optional<ModelRunner> runner_;
    std::vector<graph::Shape> shapes_;
    std::optional<graph::Executor> executor_;
    std::mutex mutex_;
};

nb::list described(const graph::Graph& g, const std::vector<graph::ValueId>& ids) {
    nb::list list;
    for (const auto id : ids) {
        const auto& type = g.values[id].type;
        list.append(
            nb::make_tuple(g.values[id].name, std::string(to_string(type.type)), graph::to_text(type)));
    }
    return list;
}

std::vector<NumpyArray> run(Model& model, const std::vector<AnyArray>& arrays, std::uint64_t seed,
                            const PyExec& exec) {
    const auto& g = model.graph();
    if (arrays.size() != g.inputs.size())
        fail(ErrorCode::bad_usage,
             fmt::format("{} inputs given, the model has {}", arrays.size(), g.inputs.size()));
    std::vector<graph::TensorView> inputs;
    for (std::size_t i = 0; i < arrays.size(); ++i)
        inputs.push_back(tensor_of(arrays[i], g.values[g.inputs[i]]));
    auto outputs = interruptible(exec, [&](const Exec& e) { return model.run(inputs, seed, e); });
    std::vector<NumpyArray> out;
    for (auto& tensor : outputs) out.push_back(to_array(std::move(tensor)));
    return out;
}

}  // namespace

void bind_model(nb::module_& m) {
    nb::class_<Model>(m, "Model", "A network, or a deployed model with its chip.")
        .def_prop_ro(
            "inputs", [](const Model& s) { return described(s.graph(), s.graph().inputs); },
            "Name, element type and type of every input.")
        .def_prop_ro("outputs", [](const Model& s) { return described(s.graph(), s.graph().outputs); })
        .def_prop_ro("backend",
                     [](const Model& s) {
                         return s.deployed() ? s.deployed()->chip.plan.spec.name : std::string("fp32");
                     })
        .def_prop_ro("deployed", [](const Model& s) { return s.deployed().has_value(); })
        .def("run", &run, nb::arg("arrays"), nb::arg("seed"), nb::arg("exec"))
        .def(
            "save",
            [](const Model& s, const std::filesystem::path& path) {
                s.deployed() ? save_model(path, *s.deployed()) : graph::save_graph(path, s.graph());
            },
            nb::arg("path"));
    m.def(
        "load_network",
        [](const std::filesystem::path& path, const PyExec& exec) {
            return interruptible(exec, [&](const Exec&) { return std::make_unique<Model>(path); });
        },
        nb::arg("path"), nb::arg("exec"));
}

}  // namespace imka::python
