#include "imka/train/performer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "imka/attention/attention.hpp"
#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostParameters = 200'000;
constexpr double kMostLayers = 2.0;
constexpr std::uint32_t kPoisson = 0x706F6973U;  // purpose of derived seeds

std::size_t size_of(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// The law of a parameter's initial values. Uniform: ±bound.
struct Law {
    enum Kind { constant, normal, uniform } kind = constant;
    double size = 0.0;  // value, standard deviation or bound
};

struct Parameter {
    ParameterShape shape;
    Law law;
};

Law xavier(std::int64_t outputs, std::int64_t inputs, double gain) {
    return {Law::uniform, gain * std::sqrt(6.0 / static_cast<double>(outputs + inputs))};
}
// The default of PyTorch's Linear, for weights and biases.
Law fan_in(std::int64_t inputs) {
    return {Law::uniform, 1.0 / std::sqrt(static_cast<double>(inputs))};
}

// Collects the parameters of a model.
class List {
public:
    explicit List(const PerformerConfig& config) : config_(config) {}

    void add(const std::string& name, std::int64_t rows, std::int64_t cols, Law law) {
        parameters_.push_back({{name, size_of(rows), size_of(cols)}, law});
    }
    struct Linear {
        std::int64_t outputs = 0;
        std::int64_t inputs = 0;
        Law weight;
        Law bias;
        bool has_bias = true;
    };
    void add(const std::string& name, Linear linear) {
        if (config_.init == ModelInit::bert) {
            linear.weight = {Law::normal, 0.02};
            linear.bias = {};
        }
        add(name + ".weight", linear.outputs, linear.inputs, linear.weight);
        if (linear.has_bias) add(name + ".bias", 1, linear.outputs, linear.bias);
    }
    void add_norm(const std::string& name) {
        add(name + ".weight", 1, config_.width, {Law::constant, 1.0});
        add(name + ".bias", 1, config_.width, {});
    }

    void add_embedding() {
        const auto width = static_cast<double>(config_.width);
        const double wished = config_.embedding_std > 0.0 ? config_.embedding_std : 1.0 / std::sqrt(width);
        const bool bert = config_.init == ModelInit::bert;
        if (config_.embedding == Embedding::table) {
            add("embedding.weight", config_.vocabulary, config_.width, {Law::normal, bert ? 0.02 : wished});
        } else {
            add("embedding.weight", 1, config_.width, {Law::normal, wished});
            add("embedding.bias", 1, config_.width, {Law::normal, 0.1});
        }
        add_norm("embedding.norm");
    }
    void add_layer(const std::string& prefix) {
        const auto w = config_.width;
        const auto h = config_.hidden;
        for (const auto* part : {"q", "k", "v"}) {
            add(prefix + part, Linear{w, w, xavier(w, w, std::sqrt(0.5)), fan_in(w), config_.qkv_bias});
        }
        add(prefix + "out", Linear{w, w, xavier(w, w, 1.0), {}});
        add_norm(prefix + "norm1");
        add(prefix + "fc1", Linear{h, w, fan_in(w), fan_in(w)});
        add(prefix + "fc2", Linear{w, h, fan_in(h), fan_in(h)});
        add_norm(prefix + "norm2");
    }
    void add_classifier() {
        const auto inputs = config_.documents * config_.width;
        const auto hidden = config_.classifier_hidden;
        add("classifier.hidden", Linear{hidden, inputs, xavier(hidden, inputs, 1.0), {}});
        add("classifier.output",
            Linear{config_.classes, hidden, xavier(config_.classes, hidden, 1.0), {}, false});
    }
    std::vector<Parameter> take() && { return std::move(parameters_); }

private:
    const PerformerConfig& config_;
    std::vector<Parameter> parameters_;
};

std::vector<Parameter> parameters_of(const PerformerConfig& config) {
    List list(config);
    list.add_embedding();
    for (std::int64_t i = 0; i < own_layers(config); ++i) list.add_layer(fmt::format("layer{}.", i));
    if (config.norm == NormOrder::pre) list.add_norm("norm");
    list.add_classifier();
    return std::move(list).take();
}

Matrix<float> drawn(const Parameter& p, std::uint64_t seed) {
    Matrix<float> values(p.shape.rows, p.shape.cols);
    for (std::size_t i = 0; i < values.values().size(); ++i) {
        double unit = 1.0;
        if (p.law.kind == Law::normal) unit = normal(seed, Stream::model_init, i);
        if (p.law.kind == Law::uniform) unit = 2.0 * uniform(seed, Stream::model_init, i) - 1.0;
        values.values()[i] = static_cast<float>(p.law.size * unit);
    }
    return values;
}

// The smallest k with P(X <= k) >= u, for X of the Poisson law with mean 1.
int poisson_quantile(double u) {
    int k = 0;
    double term = std::exp(-1.0);
    for (double sum = term; sum < u && term > 0.0; sum += term) term /= ++k;
    return k;
}

}  // namespace

Fields fields(PerformerConfig& c) {
    return {
        field("embedding", c.embedding, {.help = "table: one vector per token; affine: pixel times vector"}),
        field("vocabulary", c.vocabulary,
              range::between(2, 257, "Rows of the table: symbols and one for padding")),
        field("pixel_mean", c.pixel_mean, range::between(-10, 10, "Subtracted from pixels / 255")),
        field("pixel_std", c.pixel_std,
              range::positive("Divisor of pixels / 255, after the mean is subtracted")),
        field("length", c.length, range::between(1, 65536, "Maximum number of tokens per document")),
        field("documents", c.documents, range::between(1, 2, "Documents per example")),
        field("classes", c.classes, range::between(2, 1000, "Classes")),
        field("layers", c.layers, range::between(1, kMostLayers, "Encoder layers")),
        field("width", c.width, range::between(2, 4096, "Size of a token's vector")),
        field("hidden", c.hidden, range::between(1, 16384, "Hidden units of the network in a layer")),
        field("heads", c.heads, range::between(1, 64, "Heads of attention; must divide the width")),
        field("classifier_hidden", c.classifier_hidden,
              range::between(1, 16384, "Hidden units of the classifier")),
        field("tied", c.tied, {.help = "All layers share their parameters"}),
        field("activation", c.activation, {.help = "Of the network in a layer; gelu with erf"}),
        field("classifier_activation", c.classifier_activation, {.help = "Of the classifier"}),
        field("norm", c.norm, {.help = "Layer norm after or before each part of a layer"}),
        field("qkv_bias", c.qkv_bias, {.help = "Queries, keys and values have a bias"}),
        field("init", c.init, {.help = "Initial weights; bert: all N(0, 0.02²)"}),
        field("embedding_std", c.embedding_std,
              range::not_negative("Standard deviation of the initial embedding; 0: 1/sqrt(width)")),
        field("attention", c.attention, {.help = "favor: positive random features; relu; exact: softmax"}),
        field("n_directions", c.n_directions, range::between(1, 4096, "Random directions m per head")),
        field("omega_scale", c.omega_scale, range::positive("Factor applied to the random directions")),
        field("shared_omega", c.shared_omega, {.help = "One draw of the directions for all layers"}),
    };
}

void validate(const PerformerConfig& config) {
    auto copy = config;
    check_ranges(fields(copy));
    if (config.width % config.heads != 0)
        fail(ErrorCode::bad_config,
             fmt::format("heads: {} does not divide the width {}", config.heads, config.width));
    if (config.width % 2 != 0)
        fail(ErrorCode::bad_config, "width: must be even, for the sines and cosines of positions");
    if (const auto count = parameter_count(config); count > kMostParameters)
        fail(ErrorCode::bad_config,
             fmt::format("the model has {} parameters; at most {} are allowed", count, kMostParameters));
}

std::int64_t head_size(const PerformerConfig& config) {
    return config.width / config.heads;
}

std::int64_t own_layers(const PerformerConfig& config) {
    return config.tied ? 1 : config.layers;
}

std::vector<ParameterShape> parameter_shapes(const PerformerConfig& config) {
    std::vector<ParameterShape> shapes;
    for (auto& p : parameters_of(config)) shapes.push_back(std::move(p.shape));
    return shapes;
}

std::size_t parameter_count(const PerformerConfig& config) {
    const auto shapes = parameter_shapes(config);
    return std::accumulate(shapes.begin(), shapes.end(), std::size_t{0},
                           [](std::size_t sum, const auto& s) { return sum + s.rows * s.cols; });
}

std::vector<std::string> static_weights(const PerformerConfig& config) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < own_layers(config); ++i) {
        for (const auto* part : {"q", "k", "v", "out", "fc1", "fc2"})
            names.push_back(fmt::format("layer{}.{}", i, part));
    }
    names.insert(names.end(), {"classifier.hidden", "classifier.output"});
    return names;
}

Matrix<float> sinusoidal_positions(const PerformerConfig& config) {
    const auto half = size_of(config.width / 2);
    const double rate = half > 1 ? std::log(1e4) / static_cast<double>(half - 1) : 0.0;
    Matrix<float> table(size_of(config.length), size_of(config.width));
    for (std::size_t t = 0; t < table.rows(); ++t) {
        for (std::size_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(t + 1) * std::exp(-rate * static_cast<double>(i));
            table(t, i) = static_cast<float>(std::sin(angle));
            table(t, half + i) = static_cast<float>(std::cos(angle));
        }
    }
    return table;
}

Matrix<float> draw_omega(const PerformerConfig& config, const OmegaDraw& draw, bool truncated) {
    const AttentionConfig attention{.n_directions = config.n_directions, .shared = config.shared_omega};
    auto omega = sample(omega_recipe(attention, head_size(config), draw, truncated));
    const auto scale = static_cast<float>(config.omega_scale);
    for (auto& w : omega.values()) w *= scale;
    return omega;
}

Matrix<float> poisson_omega(const PerformerConfig& config, const OmegaDraw& draw) {
    const AttentionConfig attention{.n_directions = config.n_directions, .shared = config.shared_omega};
    const auto recipe = omega_recipe(attention, head_size(config), draw);
    Matrix<float> omega(size_of(recipe.m), size_of(recipe.d));
    for (std::size_t i = 0; i < omega.values().size(); ++i) {
        const double u = uniform(derived_seed(recipe.seed, kPoisson), Stream::model_init, i);
        omega.values()[i] = static_cast<float>(config.omega_scale * poisson_quantile(u));
    }
    return omega;
}

Performer initial_performer(const PerformerConfig& config, const std::string& task, std::uint64_t seed) {
    validate(config);
    Performer model{.config = config, .task = task};
    std::uint32_t index = 0;
    for (const auto& p : parameters_of(config))
        model.weights.emplace(p.shape.name, drawn(p, derived_seed(seed, index++)));
    if (config.embedding == Embedding::table)
        std::ranges::fill(model.weights.at("embedding.weight").row(0), 0.0F);
    for (std::int64_t i = 0; i < config.layers; ++i)
        model.omega.push_back(draw_omega(config, {.seed = seed, .layer = static_cast<std::uint64_t>(i)}));
    return model;
}

}  // namespace imka
