// Graphs of Performers against a naive forward pass in double precision.
#include "imka/train/performer_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "imka/base/random.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/graph/static_matrices.hpp"
#include "support/error.hpp"
#include "support/small_performer.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

// Weights that differ from their initial values everywhere, also norms and biases.
Performer random_model(const PerformerConfig& config) {
    auto model = initial_performer(config, "tiny", 5);
    std::uint64_t i = 0;
    for (auto& [name, w] : model.weights) {
        for (auto& x : w.values()) x += 0.2F * normal(9, Stream::test, i++);
    }
    return model;
}

// The formulas of the model, one token after another.
class Naive {
public:
    explicit Naive(const Performer& model) : m_(model), c_(model.config) {}

    Vector logits(const std::vector<std::vector<std::uint8_t>>& documents) const {
        Vector h;
        for (std::size_t i = documents.size(); i-- > 0;) {
            const auto pooled = encode(documents[i]);
            h.insert(h.end(), pooled.begin(), pooled.end());
        }
        h = linear("classifier.hidden", h);
        for (auto& x : h) x = act(c_.classifier_activation, x);
        return linear("classifier.output", h);
    }

private:
    double at(const std::string& name, std::size_t r, std::size_t col) const {
        return static_cast<double>(m_.weights.at(name)(r, col));
    }

    static double act(Activation a, double x) {
        if (a == Activation::gelu) return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
        if (a == Activation::silu) return x / (1.0 + std::exp(-x));
        return std::max(x, 0.0);
    }

    Vector linear(const std::string& name, Vector x) const {
        if (const auto range = m_.input_ranges.find(name); range != m_.input_ranges.end()) {
            for (auto& v : x) v = std::clamp<double>(v, -range->second, range->second);
        }
        const auto& w = m_.weights.at(name + ".weight");
        Vector y(w.rows());
        for (std::size_t o = 0; o < y.size(); ++o) {
            y[o] = m_.weights.contains(name + ".bias") ? at(name + ".bias", 0, o) : 0.0;
            for (std::size_t i = 0; i < x.size(); ++i) y[o] += x[i] * static_cast<double>(w(o, i));
        }
        return y;
    }

    Vector norm(const std::string& name, const Vector& x) const {
        const auto n = static_cast<double>(x.size());
        double mean = 0.0;
        double variance = 0.0;
        for (const double v : x) mean += v / n;
        for (const double v : x) variance += (v - mean) * (v - mean) / n;
        Vector y(x.size());
        for (std::size_t i = 0; i < y.size(); ++i)
            y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", 0, i) +
                   at(name + ".bias", 0, i);
        return y;
    }

    Vector embed(std::uint8_t token, std::size_t t) const {
        const auto width = static_cast<std::size_t>(c_.width);
        const auto positions = sinusoidal_positions(c_);
        Vector e(width);
        for (std::size_t i = 0; i < width; ++i) {
            const double pixel = (token / 255.0 - c_.pixel_mean) / c_.pixel_std;
            const double x = c_.embedding == Embedding::table
                                 ? at("embedding.weight", token + 1U, i)
                                 : pixel * at("embedding.weight", 0, i) + at("embedding.bias", 0, i);
            e[i] = x * std::sqrt(static_cast<double>(width)) + static_cast<double>(positions(t, i));
        }
        return norm("embedding.norm", e);
    }

    // The similarity of a query and a key of one head, up to a factor of the query.
    double similarity(std::size_t layer, const double* q, const double* k) const {
        const auto d = static_cast<std::size_t>(head_size(c_));
        const double scale = 1.0 / std::sqrt(std::sqrt(static_cast<double>(d)));
        double dot = 0.0;
        double square = 0.0;
        for (std::size_t i = 0; i < d; ++i) {
            dot += q[i] * k[i];
            square += k[i] * k[i];
        }
        if (c_.attention == ModelAttention::exact) return std::exp(dot / std::sqrt(static_cast<double>(d)));
        double sum = 0.0;
        for (std::size_t r = 0; r < m_.omega[layer].rows(); ++r) {
            double u = 0.0;
            double v = 0.0;
            for (std::size_t i = 0; i < d; ++i) {
                u += static_cast<double>(m_.omega[layer](r, i)) * scale * q[i];
                v += static_cast<double>(m_.omega[layer](r, i)) * scale * k[i];
            }
            if (c_.attention == ModelAttention::relu)
                sum += (std::max(u, 0.0) + 1e-6) * (std::max(v, 0.0) + 1e-6);
            else
                sum += (std::exp(u + v) + std::exp(-u - v)) * std::exp(-0.5 * scale * scale * square);
        }
        return sum;
    }

    Rows attention(std::size_t layer, const std::string& own, const Rows& x) const {
        Rows q;
        Rows k;
        Rows v;
        for (const auto& row : x) {
            q.push_back(linear(own + "q", row));
            k.push_back(linear(own + "k", row));
            v.push_back(linear(own + "v", row));
        }
        const auto d = static_cast<std::size_t>(head_size(c_));
        Rows out(x.size(), Vector(x[0].size()));
        for (std::size_t i = 0; i < x.size(); ++i) {
            for (std::size_t h = 0; h < x[0].size(); h += d) {
                double sum = 0.0;
                for (std::size_t j = 0; j < x.size(); ++j) {
                    const double s = similarity(layer, &q[i][h], &k[j][h]);
                    sum += s;
                    for (std::size_t e = h; e < h + d; ++e) out[i][e] += s * v[j][e];
                }
                for (std::size_t e = h; e < h + d; ++e) out[i][e] /= sum;
            }
            out[i] = linear(own + "out", out[i]);
        }
        return out;
    }

    Vector encode(const std::vector<std::uint8_t>& tokens) const {
        Rows x;
        for (std::size_t t = 0; t < tokens.size(); ++t) x.push_back(embed(tokens[t], t));
        const bool pre = c_.norm == NormOrder::pre;
        for (std::size_t l = 0; l < static_cast<std::size_t>(c_.layers); ++l) {
            const auto own = "layer" + std::to_string(c_.tied ? 0 : l) + ".";
            Rows in = x;
            for (auto& row : in) row = pre ? norm(own + "norm1", row) : row;
            const auto y = attention(l, own, in);
            for (std::size_t t = 0; t < x.size(); ++t) {
                for (std::size_t i = 0; i < y[t].size(); ++i) x[t][i] += y[t][i];
                if (!pre) x[t] = norm(own + "norm1", x[t]);
                auto h = linear(own + "fc1", pre ? norm(own + "norm2", x[t]) : x[t]);
                for (auto& e : h) e = act(c_.activation, e);
                h = linear(own + "fc2", h);
                for (std::size_t i = 0; i < h.size(); ++i) x[t][i] += h[i];
                if (!pre) x[t] = norm(own + "norm2", x[t]);
            }
        }
        Vector mean(x[0].size());
        for (auto& row : x) {
            if (pre) row = norm("norm", row);
            for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row[i] / static_cast<double>(x.size());
        }
        return mean;
    }

    const Performer& m_;
    const PerformerConfig& c_;
};

// Documents of these lengths, of random tokens.
std::vector<std::vector<std::uint8_t>> documents(const PerformerConfig& config,
                                                 const std::vector<std::size_t>& lengths) {
    const std::uint64_t values =
        config.embedding == Embedding::affine ? 256 : static_cast<std::uint64_t>(config.vocabulary - 1);
    std::vector<std::vector<std::uint8_t>> all;
    std::uint64_t i = 0;
    for (const auto length : lengths) {
        auto& d = all.emplace_back(length);
        for (auto& t : d) t = static_cast<std::uint8_t>(uniform_int(7, Stream::test, i++, values));
    }
    return all;
}

// Inputs of the graph, padded to `tokens` with zeros.
void add_inputs(const PerformerConfig& config, const std::vector<std::vector<std::uint8_t>>& docs,
                std::size_t tokens, std::vector<graph::Tensor>& inputs) {
    const auto n = static_cast<std::int64_t>(docs.size());
    graph::Tensor padded(graph::DType::u8, {n, static_cast<std::int64_t>(tokens)});
    graph::Tensor lengths(graph::DType::i64, {n});
    for (std::size_t i = 0; i < docs.size(); ++i) {
        std::ranges::copy(docs[i], padded.values<std::uint8_t>().data() + i * tokens);
        lengths.values<std::int64_t>()[i] = static_cast<std::int64_t>(docs[i].size());
    }
    inputs.push_back(padded);
    if (config.embedding == Embedding::table) inputs.push_back(lengths);
}

Matrix<float> run(const graph::Graph& g, const std::vector<graph::Tensor>& inputs) {
    std::vector<graph::Shape> shapes;
    std::vector<graph::TensorView> views;
    for (const auto& t : inputs) {
        shapes.push_back(t.shape);
        views.push_back(t.view());
    }
    graph::Executor executor(graph::simplified(graph::with_input_shapes(g, shapes)));
    const auto out = executor.run(views, nullptr, {}).outputs.at(0);
    Matrix<float> y(static_cast<std::size_t>(out.shape[0]), static_cast<std::size_t>(out.shape[1]));
    std::ranges::copy(out.values<float>(), y.values().begin());
    return y;
}

void expect_naive(const Performer& model, const std::vector<std::size_t>& lengths, std::size_t tokens) {
    const auto docs = documents(model.config, lengths);
    std::vector<graph::Tensor> inputs;
    add_inputs(model.config, docs, tokens, inputs);
    auto second = docs;
    std::ranges::reverse(second);
    if (model.config.documents == 2) add_inputs(model.config, second, tokens, inputs);
    const auto y = run(graph_of(model, model.omega), inputs);
    ASSERT_EQ(y.rows(), docs.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < docs.size(); ++i) {
        std::vector<std::vector<std::uint8_t>> example{docs[i]};
        if (model.config.documents == 2) example.push_back(second[i]);
        const auto expected = Naive(model).logits(example);
        ASSERT_EQ(y.cols(), expected.size());
        for (std::size_t c = 0; c < expected.size(); ++c) {
            EXPECT_NEAR(static_cast<double>(y(i, c)), expected[c], 2e-5) << i << " " << c;
            largest = std::max(largest, std::abs(expected[c]));
        }
    }
    EXPECT_GT(largest, 0.1);
}

TEST(PerformerGraph, HasTheLogitsOfTheFormulas) {
    expect_naive(random_model(small_performer()), {20, 13, 1}, 20);
}

TEST(PerformerGraph, SupportsEveryVariantOfTheModel) {
    const auto variant = [](const auto& change) {
        auto config = small_performer();
        change(config);
        expect_naive(random_model(config),
                     config.embedding == Embedding::affine ? std::vector<std::size_t>{20, 20}
                                                           : std::vector<std::size_t>{9, 16, 5},
                     config.embedding == Embedding::affine ? 20 : 17);
    };
    variant([](auto& c) {
        c.embedding = Embedding::affine;
        c.pixel_mean = 0.48;
        c.pixel_std = 0.24;
    });
    variant([](auto& c) { c.tied = true; });
    variant([](auto& c) { c.norm = NormOrder::pre; });
    variant([](auto& c) { c.documents = 2; });
    variant([](auto& c) { c.attention = ModelAttention::relu; });
    variant([](auto& c) { c.attention = ModelAttention::exact; });
    variant([](auto& c) {
        c.attention = ModelAttention::exact;
        c.embedding = Embedding::affine;
    });
    variant([](auto& c) {
        c.activation = Activation::silu;
        c.classifier_activation = Activation::relu;
        c.qkv_bias = false;
    });
    variant([](auto& c) {
        c.layers = 1;
        c.omega_scale = 0.5;
        c.shared_omega = true;
    });
}

TEST(PerformerGraph, ClipsInputsToTheirLearnedRanges) {
    auto model = random_model(small_performer());
    const auto free = Naive(model).logits(documents(model.config, {11}))[0];
    model.input_ranges = {{"layer0.q", 0.3F}, {"layer1.fc2", 0.1F}, {"classifier.output", 0.2F}};
    EXPECT_GT(std::abs(free - Naive(model).logits(documents(model.config, {11}))[0]), 0.01);
    expect_naive(model, {11, 4}, 12);
}

TEST(PerformerGraph, PaddingChangesNothing) {
    const auto model = random_model(small_performer());
    const auto docs = documents(model.config, {6, 10});
    const auto g = graph_of(model, model.omega);
    std::vector<graph::Tensor> tight;
    std::vector<graph::Tensor> wide;
    add_inputs(model.config, docs, 10, tight);
    add_inputs(model.config, docs, 20, wide);
    auto other = wide;
    std::ranges::fill(other[0].values<std::uint8_t>().subspan(6, 14), std::uint8_t{3});
    const auto y = run(g, wide);
    EXPECT_EQ(y, run(g, other));
    const auto cut = run(g, tight);
    for (std::size_t i = 0; i < y.values().size(); ++i) EXPECT_NEAR(y.values()[i], cut.values()[i], 1e-5);
}

TEST(PerformerGraph, HasTheNamesOfTheParametersAndSharesTiedMatrices) {
    auto config = small_performer();
    config.tied = true;
    config.shared_omega = true;
    const auto model = random_model(config);
    std::set<std::string> names;
    for (const auto& m : graph::static_matrices(graph_of(model, model.omega))) {
        names.insert(m.name);
        const std::size_t uses = m.name.starts_with("omega") ? 4 : m.name.starts_with("layer0") ? 2 : 1;
        EXPECT_EQ(m.uses.size(), uses) << m.name;
    }
    std::set<std::string> expected{"omega0"};
    for (const auto& name : static_weights(config)) expected.insert(name + ".weight");
    EXPECT_EQ(names, expected);
    config.shared_omega = false;
    const auto separate = random_model(config);
    EXPECT_EQ(graph::matrices_by_name(graph_of(separate, separate.omega)).count("omega1"), 1U);
}

TEST(PerformerGraph, RefusesTensorsThatDoNotFit) {
    auto model = random_model(small_performer());
    const auto error = [&] { return error_of([&] { (void)graph_of(model, model.omega); }); };
    model.omega.pop_back();
    EXPECT_THAT(error(), AllOf(HasSubstr("bad_data"), HasSubstr("expected 2")));
    model = random_model(small_performer());
    model.omega[1] = Matrix<float>(7, 3);
    EXPECT_THAT(error(), HasSubstr("'omega' is 7 x 3; expected 7 x 4"));
    model = random_model(small_performer());
    model.weights.erase("layer1.fc1.weight");
    EXPECT_THAT(error(), HasSubstr("no tensor 'layer1.fc1.weight'"));
    model = random_model(small_performer());
    model.input_ranges["layer5.q"] = 1.0F;
    EXPECT_THAT(error(), HasSubstr("input range of 'layer5.q': no such weight"));
}

}  // namespace
}  // namespace imka
