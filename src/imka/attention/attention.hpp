// Attention: exact softmax attention in linear memory, and kernelised attention in linear time and memory.
//
//   exact        softmax(scale Q Kᵀ) V
//   kernelised   φ(Q) (φ(K)ᵀ V) / φ(Q) (φ(K)ᵀ 1), φ: random features of Ω (AttentionConfig)
//
// Several query heads may share one head of keys and values (grouped heads): heads of q must be a multiple of
// heads of k. Ignored keys (key_mask) contribute exactly nothing, whatever they hold. A query without any key
// gives zeros. The bits of a result do not depend on the number of threads. Runs on exec.device; docs/cuda.md
// lists the differences between devices. AttentionState and exact_attention_rows run on the processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "imka/attention/heads.hpp"
#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/omega/omega.hpp"
#include "imka/ops/attention/form.hpp"

namespace imka {

// One sequence.
struct AttentionInputs {
    HeadsView<const float> q;                     // heads x queries x d
    HeadsView<const float> k;                     // key heads x keys x d
    HeadsView<const float> v;                     // key heads x keys x size of a value
    std::span<const std::uint8_t> key_mask = {};  // per key: 0 = ignored; empty: all are used
};

struct AttentionOptions {
    bool causal = false;               // query i uses keys 0..i; needs as many queries as keys
    std::optional<double> scale = {};  // of the scores; none: 1 / sqrt(d)
    std::uint64_t product_seed = 0;    // of the noise of a chip
};

// Error{bad_data} if shapes do not fit or a value that is used is not finite.
void validate(const AttentionInputs& inputs, const AttentionOptions& options);

// The shape of out: heads of q x queries x size of a value. Sums in float, over blocks of keys.
void exact_attention(const AttentionInputs& inputs, const AttentionOptions& options, const Exec& exec,
                     HeadsView<float> out);
// Rows of softmax(scale Q Kᵀ) of one head: out(i, j) for query rows[i] and key j.
Matrix<float> exact_attention_rows(const AttentionInputs& inputs, std::size_t head,
                                   std::span<const std::size_t> rows, const AttentionOptions& options);

// The features of kernelised attention. Names in brackets are those of Performer libraries.
struct AttentionConfig {
    ops::AttentionForm form = ops::AttentionForm::positive;
    Sampler sampler = Sampler::orf;
    Norms norms = Norms::auto_;
    std::optional<double> truncation = {};          // of Ω; auto: 3 on a chip, else off
    std::optional<std::int64_t> n_directions = {};  // m (nb_features); auto: d ln d, at least 1
    double kernel_epsilon = 0.0;                    // added to every feature
    bool shared = false;                            // one Ω for all layers
    std::int64_t feature_redraw_interval = 0;       // steps between two draws of Ω; 0 = never
};
Fields fields(AttentionConfig& config);
// Checks everything that does not depend on the inputs.
void validate(const AttentionConfig& config);
std::int64_t directions(const AttentionConfig& config, std::int64_t d);  // m

// Identifies Ω: the draw for a layer at a training step. Ω changes only where redraw_count changes.
struct OmegaDraw {
    std::uint64_t seed = 0;
    std::uint64_t layer = 0;
    std::uint64_t redraws = 0;  // how often Ω was redrawn
};
std::uint64_t redraw_count(const AttentionConfig& config, std::uint64_t step);
// Recipe of Ω for the softmax kernel; layer 0 without redraws uses the seed unchanged.
OmegaRecipe omega_recipe(const AttentionConfig& config, std::int64_t d, const OmegaDraw& draw,
                         bool on_chip = false);

class GpuAttention;  // attention/gpu_attention.hpp

// Kernelised attention with a given Ω.
class KernelAttention {
public:
    // Ω is m x d. On this processor, projection and features are fused.
    KernelAttention(const AttentionConfig& config, Matrix<float> omega);
    // Projections by any projector, for example a chip (features/project_chip.hpp): all queries and keys go
    // through the same one. It gets inputs times sqrt(scale). Query r of head h is product h * queries + r;
    // keys follow.
    KernelAttention(const AttentionConfig& config, std::unique_ptr<const Projector> projector);
    ~KernelAttention();
    KernelAttention(KernelAttention&& other) noexcept;
    KernelAttention& operator=(KernelAttention&& other) noexcept;

    std::size_t inputs() const;    // d
    std::size_t outputs() const;   // m
    std::size_t features() const;  // D
    const AttentionConfig& config() const { return config_; }

    // Features and products in float, sums over keys in float within blocks of kAttentionRows and in double
    // over blocks. Error{numeric} naming the query if its normaliser is 0 or not finite.
    void run(const AttentionInputs& inputs, const AttentionOptions& options, const Exec& exec,
             HeadsView<float> out) const;
    // Many sequences, of any lengths.
    void run(std::span<const AttentionInputs> inputs, const AttentionOptions& options, const Exec& exec,
             std::span<const HeadsView<float>> out) const;
    // Rows of the matrix whose product with V is the output.
    Matrix<float> rows(const AttentionInputs& inputs, std::size_t head, std::span<const std::size_t> rows,
                       const AttentionOptions& options, const Exec& exec) const;

    // The same on a GPU, with Ω copied there by the first call. Valid as long as this object.
    const GpuAttention& on_gpu(int gpu) const;

private:
    friend class KernelRun;
    struct GpuCopies;

    AttentionConfig config_;
    Matrix<float> omega_;                         // empty with a projector
    std::unique_ptr<const Projector> projector_;  // nullptr: Ω on this processor
    std::unique_ptr<GpuCopies> gpu_copies_;
};

// Causal attention, one token at a time: memory does not grow with the number of tokens. The outputs are
// those of a causal run over all tokens so far, up to rounding.
class AttentionState {
public:
    struct Shape {
        std::size_t heads = 1;
        std::size_t key_heads = 1;
        std::size_t value_size = 0;
    };
    // attention must outlive the state.
    AttentionState(const KernelAttention& attention, const Shape& shape,
                   const AttentionOptions& options = {});
    AttentionState(const KernelAttention&& attention, const Shape& shape,
                   const AttentionOptions& options = {}) = delete;
    ~AttentionState();
    AttentionState(AttentionState&&) noexcept;
    AttentionState& operator=(AttentionState&&) noexcept;
    // One token: q is heads x d, k is key heads x d, v is key heads x value size, out is heads x value size.
    void append(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
                MatrixView<float> out);
    std::uint64_t tokens() const;
    std::size_t bytes() const;  // of the sums

private:
    struct Sums;
    std::unique_ptr<Sums> sums_;
};

}  // namespace imka
