#include "imka/train/performer_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/graph/builder.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

using graph::Builder;
using graph::DType;
using graph::Tensor;
using graph::ValueId;

constexpr float kNormEpsilon = 1e-5F;
constexpr float kReluEpsilon = 1e-6F;   // as in training
constexpr float kMaskedScore = -1e30F;  // its exponential is 0
constexpr std::size_t kByteValues = 256;

Tensor ints(const std::vector<std::int64_t>& values) {
    return graph::row_tensor(values);
}

Tensor one_float(float value) {
    return graph::make_tensor<float>({}, std::vector{value});
}

// One document on its way through the network.
struct Document {
    std::string prefix;   // of the names of its values
    ValueId x = 0;        // batch x tokens x width
    ValueId count = 0;    // number of tokens, one element
    ValueId lengths = 0;  // batch; table embeddings only
    ValueId mask = 0;     // bool, batch x tokens; table embeddings only
};

// One encoder layer.
struct Layer {
    std::string name;  // prefix of its values
    std::string own;   // prefix of its parameters
    std::size_t number = 0;
};

class PerformerBuilder {
public:
    PerformerBuilder(const Performer& model, std::span<const Matrix<float>> omega)
        : model_(model), config_(model.config), omega_(omega) {}

    graph::Graph build() && {
        auto pooled = encoded(0);
        if (config_.documents == 2) {
            const auto second = encoded(1);
            pooled = b_.node("Concat", "pooled_pair", {second, pooled}, {{"axis", std::int64_t{1}}});
        }
        auto hidden = linear("classifier.hidden", "classifier.hidden", pooled);
        hidden = activated("classifier.activated", config_.classifier_activation, hidden);
        const auto logits = linear("logits", "classifier.output", hidden);
        return std::move(b_).finished("performer", {logits});
    }

private:
    const Matrix<float>& weight(const std::string& name) const { return model_.weights.at(name); }

    // Constants are added once: documents and tied layers share them.
    template <class Make>
    ValueId constant(const std::string& name, const Make& make) {
        const auto [found, added] = constants_.try_emplace(name, 0);
        if (added) found->second = b_.constant(name, make());
        return found->second;
    }
    ValueId vector(const std::string& name) {
        return constant(name, [&] {
            const auto values = weight(name).values();
            return graph::row_tensor(std::vector<float>(values.begin(), values.end()));
        });
    }
    ValueId axes(std::int64_t axis) {
        return constant(fmt::format("axis{}", axis), [&] { return ints({axis}); });
    }

    struct Static {
        std::string name;             // "layer0.q", "omega0"
        std::string constant;         // its name in the graph
        const Matrix<float>& values;  // outputs x inputs
    };
    // x times the transpose of a matrix. Inputs are clipped where training learned a range for them.
    ValueId product(const std::string& name, const Static& w, ValueId x) {
        if (const auto range = model_.input_ranges.find(w.name); range != model_.input_ranges.end()) {
            const auto low = constant(w.name + ".low", [&] { return one_float(-range->second); });
            const auto high = constant(w.name + ".high", [&] { return one_float(range->second); });
            x = b_.node("Clip", name + ".clipped", {x, low, high});
        }
        const auto matrix =
            constant(w.constant, [&] { return graph::matrix_tensor(transposed(w.values.view())); });
        return b_.node("MatMul", name, {x, matrix});
    }
    // A parameter ("layer0.q"), with its bias if the model has one.
    ValueId linear(const std::string& name, const std::string& parameter, ValueId x) {
        const auto bias = parameter + ".bias";
        const bool biased = model_.weights.contains(bias);
        const auto matrix = parameter + ".weight";
        const auto y = product(biased ? name + ".product" : name, {parameter, matrix, weight(matrix)}, x);
        return biased ? b_.node("Add", name, {y, vector(bias)}) : y;
    }

    ValueId activated(const std::string& name, Activation activation, ValueId x) {
        if (activation == Activation::gelu) return b_.node("Gelu", name, {x});
        if (activation == Activation::relu) return b_.node("Relu", name, {x});
        return b_.node("Mul", name, {x, b_.node("Sigmoid", name + ".sigmoid", {x})});
    }

    ValueId norm(const std::string& name, const std::string& parameters, ValueId x) {
        return b_.node("LayerNormalization", name,
                       {x, vector(parameters + ".weight"), vector(parameters + ".bias")},
                       {{"axis", std::int64_t{-1}}, {"epsilon", kNormEpsilon}});
    }

    // Row v: the vector of value v, times sqrt(width).
    Matrix<float> embedding_table() const {
        const auto& w = weight("embedding.weight");
        const auto scale = static_cast<float>(std::sqrt(static_cast<double>(config_.width)));
        const bool affine = config_.embedding == Embedding::affine;
        Matrix<float> table(affine ? kByteValues : w.rows() - 1, w.cols());
        for (std::size_t v = 0; v < table.rows(); ++v) {
            const float x = (static_cast<float>(v) / 255.0F - static_cast<float>(config_.pixel_mean)) /
                            static_cast<float>(config_.pixel_std);
            for (std::size_t c = 0; c < table.cols(); ++c)
                table(v, c) = scale * (affine ? x * w(0, c) + weight("embedding.bias")(0, c) : w(v + 1, c));
        }
        return table;
    }

    // The first rows of a constant with one row per position.
    ValueId leading_rows(const std::string& name, const Document& d, ValueId rows) {
        const auto zero = constant("zero", [&] { return ints({0}); });
        return b_.node("Slice", d.prefix + name, {rows, zero, d.count, zero});
    }

    Document input(std::size_t number) {
        const std::string suffix = number == 0 ? "" : "2";
        Document d{.prefix = number == 0 ? "" : "second."};
        const auto tokens =
            b_.input("tokens" + suffix, {{.name = "batch"}, {.name = "tokens" + suffix}}, DType::u8);
        const auto shape = b_.node("Shape", d.prefix + "shape", {tokens});
        d.count = b_.node("Gather", d.prefix + "count", {shape, axes(1)});
        if (config_.embedding == Embedding::table) {
            d.lengths = b_.input("lengths" + suffix, {{.name = "batch"}}, DType::i64);
            add_mask(d);
        }
        const auto table = constant("embedding", [&] { return graph::matrix_tensor(embedding_table()); });
        const auto index = b_.cast(d.prefix + "index", tokens, DType::i32);
        const auto positions =
            constant("positions", [&] { return graph::matrix_tensor(sinusoidal_positions(config_)); });
        const auto embedded = b_.node("Gather", d.prefix + "embedded", {table, index});
        d.x = b_.node("Add", d.prefix + "placed", {embedded, leading_rows("position", d, positions)});
        d.x = norm(d.prefix + "embedding.norm", "embedding.norm", d.x);
        return d;
    }

    // Padding needs no zeros in x: no key and no pooled vector uses it.
    void add_mask(Document& d) {
        const auto numbers = constant("numbers", [&] {
            std::vector<std::int64_t> values(static_cast<std::size_t>(config_.length));
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
            return ints(values);
        });
        const auto number = leading_rows("number", d, numbers);
        const auto column = b_.node("Unsqueeze", d.prefix + "length_column", {d.lengths, axes(1)});
        d.mask = b_.node("Less", d.prefix + "mask", {number, column});
    }

    // batch x tokens x width to batch x heads x tokens x head size.
    ValueId heads(const std::string& name, ValueId x) {
        const auto shape = constant("heads_shape", [&] {
            return ints({0, 0, config_.heads, head_size(config_)});
        });
        x = b_.node("Reshape", name + ".split", {x, shape});
        return b_.node("Transpose", name + ".heads", {x}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    }

    // Ω of a layer; layers with the same Ω share the matrix.
    std::string omega_name(std::size_t layer) const {
        std::size_t first = 0;
        while (!(omega_[first] == omega_[layer])) ++first;
        return fmt::format("omega{}", first);
    }

    ValueId kernel_attention(const std::string& name, std::size_t layer, const Document& d,
                             const std::vector<ValueId>& qkv) {
        const auto scale = constant("input_scale", [&] {
            return one_float(
                static_cast<float>(1.0 / std::sqrt(std::sqrt(static_cast<double>(head_size(config_))))));
        });
        const auto omega = omega_name(layer);
        const auto scaled = [&](const std::string& part, ValueId x) {
            return b_.node("Mul", name + part + "_scaled", {x, scale});
        };
        const auto q = scaled("q", qkv[0]);
        const auto k = scaled("k", qkv[1]);
        const bool favor = config_.attention == ModelAttention::favor;
        std::vector<ValueId> inputs{product(name + "q_projected", {omega, omega, omega_[layer]}, q),
                                    product(name + "k_projected", {omega, omega, omega_[layer]}, k), qkv[2],
                                    favor ? k : graph::kNoValue};
        if (config_.embedding == Embedding::table) inputs.push_back(d.mask);
        return b_.node(
            "imka.Attention", name + "attention", std::move(inputs),
            {{"form", std::string(favor ? "positive" : "relu")}, {"epsilon", favor ? 0.0F : kReluEpsilon}});
    }

    ValueId exact_attention(const std::string& name, const Document& d, const std::vector<ValueId>& qkv) {
        const auto scale = constant("score_scale", [&] {
            return one_float(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size(config_)))));
        });
        const auto q = b_.node("Mul", name + "q_scaled", {qkv[0], scale});
        const auto k = b_.node("Transpose", name + "k_transposed", {qkv[1]},
                               {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
        auto scores = b_.node("MatMul", name + "scores", {q, k});
        if (config_.embedding == Embedding::table) scores = masked(name, d, scores);
        scores = b_.node("Softmax", name + "shares", {scores}, {{"axis", std::int64_t{-1}}});
        return b_.node("MatMul", name + "attention", {scores, qkv[2]});
    }
    ValueId masked(const std::string& name, const Document& d, ValueId scores) {
        const auto two = constant("score_axes", [&] { return ints({1, 2}); });
        const auto mask = b_.node("Unsqueeze", name + "score_mask", {d.mask, two});
        const auto ignored = constant("masked_score", [&] { return one_float(kMaskedScore); });
        return b_.node("Where", name + "masked_scores", {mask, scores, ignored});
    }

    // Attention with its projections.
    ValueId attention(const Layer& l, const Document& d, ValueId x) {
        const auto& [name, own, layer] = l;
        std::vector<ValueId> qkv;
        for (const auto* part : {"q", "k", "v"})
            qkv.push_back(heads(name + part, linear(name + part, own + part, x)));
        auto y = config_.attention == ModelAttention::exact ? exact_attention(name, d, qkv)
                                                            : kernel_attention(name, layer, d, qkv);
        y = b_.node("Transpose", name + "tokens", {y}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
        const auto shape = constant("tokens_shape", [&] { return ints({0, 0, config_.width}); });
        y = b_.node("Reshape", name + "joined", {y, shape});
        return linear(name + "out", own + "out", y);
    }

    ValueId network(const Layer& l, ValueId x) {
        const auto& [name, own, number] = l;
        x = linear(name + "fc1", own + "fc1", x);
        x = activated(name + "activated", config_.activation, x);
        return linear(name + "fc2", own + "fc2", x);
    }

    ValueId encoder_layer(std::size_t number, const Document& d) {
        const Layer l{fmt::format("{}block{}.", d.prefix, number),
                      fmt::format("layer{}.", config_.tied ? 0 : number), number};
        const auto normed = [&](const std::string& part, ValueId v) {
            return norm(l.name + part, l.own + part, v);
        };
        const auto sum = [&](const std::string& part, ValueId a, ValueId b) {
            return b_.node("Add", l.name + part, {a, b});
        };
        if (config_.norm == NormOrder::pre) {
            const auto x = sum("sum1", d.x, attention(l, d, normed("norm1", d.x)));
            return sum("sum2", x, network(l, normed("norm2", x)));
        }
        const auto x = normed("norm1", sum("sum1", d.x, attention(l, d, d.x)));
        return normed("norm2", sum("sum2", x, network(l, x)));
    }

    // Mean over the tokens of a document.
    ValueId pooled(const Document& d) {
        if (config_.embedding == Embedding::affine)
            return b_.node("ReduceMean", d.prefix + "pooled", {d.x, axes(1)},
                           {{"keepdims", std::int64_t{0}}});
        const auto shares = b_.cast(d.prefix + "mask32", d.mask, DType::f32);
        const auto column = b_.node("Unsqueeze", d.prefix + "mask_column", {shares, axes(2)});
        const auto x = b_.node("Mul", d.prefix + "unpadded", {d.x, column});
        const auto sum =
            b_.node("ReduceSum", d.prefix + "sum", {x, axes(1)}, {{"keepdims", std::int64_t{0}}});
        const auto one = constant("one", [&] { return ints({1}); });
        auto length = b_.node("Max", d.prefix + "least_length", {d.lengths, one});
        length = b_.node("Unsqueeze", d.prefix + "divisor_column", {length, axes(1)});
        return b_.node("Div", d.prefix + "pooled", {sum, b_.cast(d.prefix + "divisor", length, DType::f32)});
    }

    ValueId encoded(std::size_t number) {
        auto d = input(number);
        for (std::size_t layer = 0; layer < static_cast<std::size_t>(config_.layers); ++layer)
            d.x = encoder_layer(layer, d);
        if (config_.norm == NormOrder::pre) d.x = norm(d.prefix + "norm", "norm", d.x);
        return pooled(d);
    }

    const Performer& model_;
    const PerformerConfig& config_;
    std::span<const Matrix<float>> omega_;
    Builder b_;
    std::map<std::string, ValueId> constants_;
};

void check_shape(const std::string& name, const Matrix<float>& m, std::size_t rows, std::size_t cols) {
    if (m.rows() != rows || m.cols() != cols)
        fail(ErrorCode::bad_data, fmt::format("tensor {} is {} x {}; expected {} x {}", in_quotes(name),
                                              m.rows(), m.cols(), rows, cols));
}

void check_tensors(const Performer& model, std::span<const Matrix<float>> omega) {
    validate(model.config);
    for (const auto& shape : parameter_shapes(model.config)) {
        const auto found = model.weights.find(shape.name);
        if (found == model.weights.end())
            fail(ErrorCode::bad_data, fmt::format("the model has no tensor {}", in_quotes(shape.name)));
        check_shape(shape.name, found->second, shape.rows, shape.cols);
    }
    for (const auto& [name, range] : model.input_ranges) {
        const auto weights = static_weights(model.config);
        const bool known = std::ranges::find(weights, name) != weights.end() || name.starts_with("omega");
        if (!known)
            fail(ErrorCode::bad_data, fmt::format("input range of {}: no such weight", in_quotes(name)));
    }
    if (model.config.attention == ModelAttention::exact) return;
    if (omega.size() != static_cast<std::size_t>(model.config.layers))
        fail(ErrorCode::bad_data,
             fmt::format("{} matrices of random directions; expected {}", omega.size(), model.config.layers));
    for (const auto& m : omega)
        check_shape("omega", m, static_cast<std::size_t>(model.config.n_directions),
                    static_cast<std::size_t>(head_size(model.config)));
}

}  // namespace

graph::Graph graph_of(const Performer& model, std::span<const Matrix<float>> omega) {
    check_tensors(model, omega);
    return PerformerBuilder(model, omega).build();
}

std::string last_heads(const PerformerConfig& config, const std::string& part) {
    return fmt::format("block{}.{}.heads", config.layers - 1, part);
}

}  // namespace imka
