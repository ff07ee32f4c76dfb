#include "imka/train/torch/fused_attention.hpp"

#include "imka/ops/attention/fused.hpp"
#include "imka/train/torch/captured.hpp"

namespace imka {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

ops::FusedAttention shape_of(const Tensor& qkv, const Tensor& omega, const FusedChoice& choice) {
    return {
        .type = qkv.scalar_type() == torch::kBFloat16 ? ops::FusedType::bfloat16 : ops::FusedType::float32,
        .form = choice.kind == ModelAttention::relu ? ops::AttentionForm::relu : ops::AttentionForm::positive,
        .batch = qkv.size(0),
        .tokens = qkv.size(1),
        .heads = choice.heads,
        .head_size = omega.size(1),
        .directions = omega.size(0),
        .stride = qkv.size(2),
        .out_stride = qkv.size(2) / 3,
        .epsilon = static_cast<float>(choice.epsilon),
        .cut_gradient = choice.cut};
}

Tensor bytes(std::size_t count, const Tensor& like) {
    return torch::empty({static_cast<std::int64_t>(count)}, like.options().dtype(torch::kByte));
}

// The parts of qkv, or of its gradient.
template <class Pointer>
Pointer part(const Tensor& qkv, std::int64_t index) {
    return static_cast<char*>(qkv.data_ptr()) + index * (qkv.size(2) / 3) * qkv.element_size();
}

ops::FusedInputs inputs_of(const Tensor& qkv, const Tensor& omega, const Tensor& lengths) {
    return {.q = part<const void*>(qkv, 0),
            .k = part<const void*>(qkv, 1),
            .v = part<const void*>(qkv, 2),
            .omega = omega.data_ptr<float>(),
            .lengths = lengths.numel() > 0 ? lengths.data_ptr<std::int32_t>() : nullptr};
}

struct Fused : torch::autograd::Function<Fused> {
    static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& omega,
                          const Tensor& lengths, std::int64_t kind, std::int64_t heads, double epsilon,
                          bool cut) {
        const FusedChoice choice{static_cast<ModelAttention>(kind), heads, epsilon, cut};
        const auto shape = shape_of(qkv, omega, choice);
        auto y = torch::empty({qkv.size(0), qkv.size(1), qkv.size(2) / 3}, qkv.options());
        auto saved = bytes(ops::fused_saved_bytes(shape), qkv);
        const auto workspace = bytes(ops::fused_workspace_bytes(shape), qkv);
        ops::fused_forward(shape, inputs_of(qkv, omega, lengths), current_stream(),
                           {.workspace = workspace.data_ptr(), .saved = saved.data_ptr(), .y = y.data_ptr()});
        context->save_for_backward({qkv, omega, lengths, saved});
        context->saved_data["kind"] = kind;
        context->saved_data["heads"] = heads;
        context->saved_data["epsilon"] = epsilon;
        context->saved_data["cut"] = cut;
        return y;
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto kept = context->get_saved_variables();
        const auto& qkv = kept[0];
        auto& data = context->saved_data;
        const FusedChoice choice{static_cast<ModelAttention>(data["kind"].toInt()), data["heads"].toInt(),
                                 data["epsilon"].toDouble(), data["cut"].toBool()};
        const auto shape = shape_of(qkv, kept[1], choice);
        const auto dy = outputs[0].contiguous();
        const auto gradient = torch::empty_like(qkv);
        const auto workspace = bytes(ops::fused_workspace_bytes(shape), qkv);
        ops::fused_backward(shape, inputs_of(qkv, kept[1], kept[2]), current_stream(),
                            {.dy = dy.data_ptr(),
                             .saved = kept[3].data_ptr(),
                             .workspace = workspace.data_ptr(),
                             .dq = part<void*>(gradient, 0),
                             .dk = part<void*>(gradient, 1),
                             .dv = part<void*>(gradient, 2)});
        return {gradient, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
    }
};

}  // namespace

bool has_fused_attention(const PerformerConfig& model, const torch::Device& device) {
    const auto d = head_size(model);
    return device.is_cuda() && model.attention != ModelAttention::exact && (d == 16 || d == 32 || d == 64) &&
           model.n_directions % 16 == 0 && model.n_directions <= 256;
}

Tensor fused_attention(const Tensor& qkv, const Tensor& omega, const Tensor& lengths,
                       const FusedChoice& choice) {
    // Autograd functions take no undefined tensors.
    const auto known = lengths.defined() ? lengths : torch::empty({0}, qkv.options().dtype(torch::kInt));
    return Fused::apply(qkv.contiguous(), omega, known, static_cast<std::int64_t>(choice.kind), choice.heads,
                        choice.epsilon, choice.cut);
}

}  // namespace imka
