// A Performer that classifies sequences: its settings, its parameters, its file.
//
//   tokens or pixels -> embedding + positions -> encoder layers -> mean over tokens -> classifier
//
// An encoder layer is attention and a network of two layers, each with a residual connection and a layer
// norm. This header needs no training library: train/torch/ trains models, and they run as graphs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "imka/attention/attention.hpp"
#include "imka/base/config.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

enum class Embedding { table, affine };            // of tokens; of pixels: x w + b
enum class NormOrder { post, pre };                // layer norm after or before each part of a layer
enum class Activation { gelu, silu, relu };        // gelu: with erf
enum class ModelAttention { favor, relu, exact };  // favor: positive features of both signs
enum class ModelInit { xavier, bert };             // bert: every weight N(0, 0.02²)
}  // namespace imka

template <>
struct imka::EnumNames<imka::Embedding> {
    static constexpr std::string_view what = "embedding";
    static constexpr std::string_view values[] = {"table", "affine"};
};
template <>
struct imka::EnumNames<imka::NormOrder> {
    static constexpr std::string_view what = "order of norms";
    static constexpr std::string_view values[] = {"post", "pre"};
};
template <>
struct imka::EnumNames<imka::Activation> {
    static constexpr std::string_view what = "activation";
    static constexpr std::string_view values[] = {"gelu", "silu", "relu"};
};
template <>
struct imka::EnumNames<imka::ModelAttention> {
    static constexpr std::string_view what = "attention";
    static constexpr std::string_view values[] = {"favor", "relu", "exact"};
};
template <>
struct imka::EnumNames<imka::ModelInit> {
    static constexpr std::string_view what = "initialisation";
    static constexpr std::string_view values[] = {"xavier", "bert"};
};

namespace imka {

struct PerformerConfig {
    Embedding embedding = Embedding::table;
    std::int64_t vocabulary = 257;  // of a table: token t has row t + 1, row 0 is padding
    double pixel_mean = 0.5;        // of pixels / 255
    double pixel_std = 0.5;
    std::int64_t length = 1024;  // maximum tokens per document
    std::int64_t documents = 1;  // per example; their pooled vectors are concatenated
    std::int64_t classes = 2;
    std::int64_t layers = 2;
    std::int64_t width = 64;    // of a token's vector
    std::int64_t hidden = 128;  // of the network in a layer
    std::int64_t heads = 2;
    std::int64_t classifier_hidden = 128;
    bool tied = false;  // all layers have the same parameters
    Activation activation = Activation::gelu;
    Activation classifier_activation = Activation::gelu;
    NormOrder norm = NormOrder::post;
    bool qkv_bias = true;
    ModelInit init = ModelInit::xavier;
    double embedding_std = 0.0;  // of the initial embedding; 0: 1 / sqrt(width)
    ModelAttention attention = ModelAttention::favor;
    std::int64_t n_directions = 128;  // m
    double omega_scale = 1.0;         // factor of Ω
    bool shared_omega = false;        // one Ω for all layers
};
Fields fields(PerformerConfig& config);
// Error{bad_config}; also if the model has more than 200,000 parameters or more than two layers.
void validate(const PerformerConfig& config);

std::int64_t head_size(const PerformerConfig& config);
// Number of layers with their own parameters.
std::int64_t own_layers(const PerformerConfig& config);

// Every tensor of a model, in a fixed order. Weights are outputs x inputs; vectors are one row.
//   embedding.weight (table: vocabulary x width; affine: 1 x width), embedding.bias (affine),
//   embedding.norm.weight|bias,
//   layer<i>.{q,k,v,out,fc1,fc2}.weight|bias, layer<i>.{norm1,norm2}.weight|bias,
//   norm.weight|bias (pre-norm only), classifier.hidden.weight|bias, classifier.output.weight
struct ParameterShape {
    std::string name;
    std::size_t rows = 0;
    std::size_t cols = 0;
};
std::vector<ParameterShape> parameter_shapes(const PerformerConfig& config);
std::size_t parameter_count(const PerformerConfig& config);
// The weights that a chip can hold: "layer0.q", ..., "classifier.output"; without Ω.
std::vector<std::string> static_weights(const PerformerConfig& config);

// length x width: the first half sines, the second half cosines.
Matrix<float> sinusoidal_positions(const PerformerConfig& config);

// Ω of a layer, m x head size, times omega_scale: orthogonal directions with the lengths of Gaussian vectors.
Matrix<float> draw_omega(const PerformerConfig& config, const OmegaDraw& draw, bool truncated = false);

// The same with entries of the Poisson law with mean 1, not centred. Models are not trained for this law.
Matrix<float> poisson_omega(const PerformerConfig& config, const OmegaDraw& draw);

// A trained model.
struct Performer {
    PerformerConfig config;
    std::string task;                              // that it was trained for
    std::map<std::string, Matrix<float>> weights;  // parameter_shapes
    std::vector<Matrix<float>> omega;              // of each layer, as at the end of training
    // Learned by hardware-aware training, by name of the weight: its inputs are clipped to ±range.
    std::map<std::string, float> input_ranges;
    std::string training;  // JSON text: settings of the training, step, validation accuracy
    // State from which an unfinished training resumes, by name; empty in finished models.
    std::map<std::string, Matrix<float>> state;
};
// A model before training. The same seed gives the same bits on every machine.
Performer initial_performer(const PerformerConfig& config, const std::string& task, std::uint64_t seed);

// Format in the metadata of their files.
inline constexpr std::string_view kPerformerFormat = "imka-performer";
// safetensors with a checksum. Error{bad_data} for other files, other versions, missing or extra tensors.
void save_performer(const std::filesystem::path& path, const Performer& model);
Performer load_performer(const std::filesystem::path& path);

}  // namespace imka
