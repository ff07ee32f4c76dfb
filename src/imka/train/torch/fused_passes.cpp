#include "imka/train/torch/fused_passes.hpp"

#include "imka/ops/norm/pointwise.hpp"
#include "imka/train/torch/captured.hpp"

namespace imka {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMostNormWidth = 256;
constexpr std::int64_t kMostWidth = 2048;

// Autograd functions take no undefined tensors: an empty tensor stands for none.
Tensor or_empty(const Tensor& t, const Tensor& like) {
    return t.defined() ? t : torch::empty({0}, like.options());
}
const float* floats(const Tensor& t) {
    return t.numel() > 0 ? t.data_ptr<float>() : nullptr;
}
const void* elements(const Tensor& t) {
    return t.defined() && t.numel() > 0 ? t.data_ptr() : nullptr;
}

// x: documents x tokens x width.
ops::TokenRows rows_of(const Tensor& x, const Tensor& lengths) {
    return {.type = x.scalar_type() == torch::kBFloat16 ? ops::FusedType::bfloat16 : ops::FusedType::float32,
            .documents = x.size(0),
            .tokens = x.size(1),
            .width = x.size(2),
            .lengths = lengths.numel() > 0 ? lengths.data_ptr<std::int32_t>() : nullptr};
}
Tensor new_floats(std::initializer_list<std::int64_t> sizes, const Tensor& like) {
    return torch::empty(sizes, like.options().dtype(torch::kFloat));
}
Tensor moments_for(const ops::TokenRows& rows, const Tensor& like) {
    return new_floats({rows.documents * rows.tokens, 2}, like);
}
Tensor workspace_for(const ops::TokenRows& rows, const Tensor& like) {
    return new_floats({static_cast<std::int64_t>(ops::column_workspace(rows))}, like);
}

ops::Dropout dropout_of(const Tensor& seed, double share, std::int64_t position) {
    if (share == 0.0) return {};
    return {.share = static_cast<float>(share),
            .seed = reinterpret_cast<const std::uint64_t*>(seed.data_ptr<std::int64_t>()),
            .stream = kDropoutStream + static_cast<std::uint32_t>(position)};
}
ops::NormWeights norm_of(const Tensor& weight, const Tensor& bias, double epsilon) {
    return {floats(weight), floats(bias), static_cast<float>(epsilon)};
}

// Saves values of a forward pass for the backward pass.
void keep(AutogradContext* context, std::initializer_list<std::pair<const char*, c10::IValue>> values) {
    for (const auto& [name, value] : values) context->saved_data[name] = value;
}

struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
    static ops::ResidualInputs inputs(AutogradContext* context, const variable_list& t) {
        auto& data = context->saved_data;
        return {.x = t[0].data_ptr(),
                .f = elements(t[1]),
                .bias = floats(t[2]),
                .dropout = dropout_of(t[6], data["share"].toDouble(), data["position"].toInt()),
                .norm = norm_of(t[3], t[4], data["epsilon"].toDouble())};
    }
    static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& f,
                                 const Tensor& bias, const Tensor& weight, const Tensor& norm_bias,
                                 const Tensor& lengths, const Tensor& seed, double share,
                                 std::int64_t position, double epsilon, bool keep_sum) {
        keep(context, {{"share", share}, {"position", position}, {"epsilon", epsilon}});
        context->set_materialize_grads(false);
        const auto rows = rows_of(x, lengths);
        const auto moments = moments_for(rows, x);
        const variable_list tensors = {x, f, bias, weight, norm_bias, lengths, seed, moments};
        auto y = torch::empty_like(x);
        variable_list results = {y};
        if (keep_sum) results.push_back(torch::empty_like(x));
        ops::residual_norm(rows, inputs(context, tensors), current_stream(),
                           {.moments = moments.data_ptr<float>(),
                            .sum = keep_sum ? results[1].data_ptr() : nullptr,
                            .y = y.data_ptr()});
        context->save_for_backward(tensors);
        return results;
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto t = context->get_saved_variables();
        const auto& x = t[0];
        const auto rows = rows_of(x, t[5]);
        const bool has_f = t[1].numel() > 0;
        const auto dy = outputs[0].contiguous();
        const auto dsum = outputs.size() > 1 && outputs[1].defined() ? outputs[1].contiguous() : Tensor();
        const auto dx = torch::empty_like(x);
        const auto df =
            has_f && context->saved_data["share"].toDouble() > 0.0 ? torch::empty_like(x) : Tensor();
        const auto dweight = torch::empty_like(t[3]);
        const auto dnorm_bias = torch::empty_like(t[4]);
        const auto dbias = torch::empty_like(t[2]);
        const auto workspace = workspace_for(rows, x);
        ops::residual_norm_backward(rows, inputs(context, t), current_stream(),
                                    {.dy = dy.data_ptr(),
                                     .dsum = elements(dsum),
                                     .moments = t[7].data_ptr<float>(),
                                     .workspace = workspace.data_ptr<float>(),
                                     .dx = dx.data_ptr(),
                                     .df = df.defined() ? df.data_ptr() : nullptr,
                                     .norm = {dweight.data_ptr<float>(), dnorm_bias.data_ptr<float>()},
                                     .dbias = dbias.numel() > 0 ? dbias.data_ptr<float>() : nullptr});
        const auto gradient_of_f = df.defined() ? df : has_f ? dx : Tensor();
        return {dx,       gradient_of_f, dbias.numel() > 0 ? dbias : Tensor(),
                dweight,  dnorm_bias,    Tensor(),
                Tensor(), Tensor(),      Tensor(),
                Tensor(), Tensor()};
    }
};

struct EmbeddingNorm : torch::autograd::Function<EmbeddingNorm> {
    static ops::EmbeddingInputs inputs(AutogradContext* context, const variable_list& t) {
        auto& data = context->saved_data;
        const bool table = t[2].numel() == 0;
        return {.tokens = t[0].data_ptr<std::uint8_t>(),
                .table = table ? floats(t[1]) : nullptr,
                .pixel_weight = table ? nullptr : floats(t[1]),
                .pixel_bias = floats(t[2]),
                .pixel_factor = static_cast<float>(data["factor"].toDouble()),
                .pixel_shift = static_cast<float>(data["shift"].toDouble()),
                .scale = static_cast<float>(data["scale"].toDouble()),
                .positions = floats(t[3]),
                .dropout = dropout_of(t[7], data["share"].toDouble(), data["position"].toInt()),
                .norm = norm_of(t[4], t[5], data["epsilon"].toDouble())};
    }
    static Tensor forward(AutogradContext* context, const Tensor& tokens, const Tensor& weight,
                          const Tensor& bias, const Tensor& positions, const Tensor& norm_weight,
                          const Tensor& norm_bias, const Tensor& lengths, const Tensor& seed, double share,
                          std::int64_t position, double epsilon, double factor, double shift, double scale,
                          bool bfloat) {
        keep(context, {{"share", share},
                       {"position", position},
                       {"epsilon", epsilon},
                       {"factor", factor},
                       {"shift", shift},
                       {"scale", scale}});
        auto y = torch::empty({tokens.size(0), tokens.size(1), weight.size(-1)},
                              tokens.options().dtype(bfloat ? torch::kBFloat16 : torch::kFloat));
        const auto rows = rows_of(y, lengths);
        const auto moments = moments_for(rows, y);
        const variable_list tensors = {tokens,    weight,  bias, positions, norm_weight,
                                       norm_bias, lengths, seed, moments};
        ops::embedding_norm(rows, inputs(context, tensors), current_stream(),
                            {.moments = moments.data_ptr<float>(), .y = y.data_ptr()});
        context->save_for_backward(tensors);
        return y;
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto t = context->get_saved_variables();
        const auto dy = outputs[0].contiguous();
        const auto rows = rows_of(dy, t[6]);
        const bool table = t[2].numel() == 0;
        const auto drows = table ? torch::empty_like(dy) : Tensor();
        const auto dnorm_weight = torch::empty_like(t[4]);
        const auto dnorm_bias = torch::empty_like(t[5]);
        auto dweight = table ? Tensor() : torch::empty_like(t[1]);
        const auto dbias = table ? Tensor() : torch::empty_like(t[2]);
        const auto workspace = workspace_for(rows, dy);
        ops::embedding_norm_backward(rows, inputs(context, t), current_stream(),
                                     {.dy = dy.data_ptr(),
                                      .moments = t[8].data_ptr<float>(),
                                      .workspace = workspace.data_ptr<float>(),
                                      .drows = table ? drows.data_ptr() : nullptr,
                                      .norm = {dnorm_weight.data_ptr<float>(), dnorm_bias.data_ptr<float>()},
                                      .dpixel_weight = table ? nullptr : dweight.data_ptr<float>(),
                                      .dpixel_bias = table ? nullptr : dbias.data_ptr<float>()});
        if (table) {
            dweight = at::embedding_dense_backward(drows, t[0].to(torch::kLong) + 1, t[1].size(0), -1, false)
                          .to(torch::kFloat);
        }
        return {Tensor(), dweight,  dbias,    Tensor(), dnorm_weight, dnorm_bias, Tensor(), Tensor(),
                Tensor(), Tensor(), Tensor(), Tensor(), Tensor(),     Tensor(),   Tensor()};
    }
};

ops::UnitFunction function_of(Activation activation) {
    switch (activation) {
        case Activation::gelu:
            return ops::UnitFunction::gelu;
        case Activation::silu:
            return ops::UnitFunction::silu;
        case Activation::relu:
            break;
    }
    return ops::UnitFunction::relu;
}

struct BiasActivation : torch::autograd::Function<BiasActivation> {
    static ops::ActivationInputs inputs(AutogradContext* context, const variable_list& t) {
        const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
        return {.x = t[0].data_ptr(), .bias = floats(t[1]), .function = function_of(activation)};
    }
    static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bias,
                          const Tensor& lengths, std::int64_t activation) {
        keep(context, {{"activation", activation}});
        auto y = torch::empty_like(x);
        const variable_list tensors = {x, bias, lengths};
        ops::bias_activation(rows_of(x, lengths), inputs(context, tensors), current_stream(), y.data_ptr());
        context->save_for_backward(tensors);
        return y;
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto t = context->get_saved_variables();
        const auto rows = rows_of(t[0], t[2]);
        const auto dy = outputs[0].contiguous();
        const auto dx = torch::empty_like(t[0]);
        const auto dbias = torch::empty_like(t[1]);
        const auto workspace = workspace_for(rows, dy);
        ops::bias_activation_backward(rows, inputs(context, t), current_stream(),
                                      {.dy = dy.data_ptr(),
                                       .workspace = workspace.data_ptr<float>(),
                                       .dx = dx.data_ptr(),
                                       .dbias = dbias.data_ptr<float>()});
        return {dx, dbias, Tensor(), Tensor()};
    }
};

Tensor as_matrix(const Tensor& x) {
    return x.view({-1, x.size(-1)});
}

struct Forked : torch::autograd::Function<Forked> {
    static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                                 const Tensor& bias, const Tensor& lengths) {
        context->set_materialize_grads(false);
        context->save_for_backward({x, weight, bias, lengths});
        const auto y = bias.numel() > 0 ? torch::addmm(bias.to(x.dtype()), as_matrix(x), weight.t())
                                        : torch::mm(as_matrix(x), weight.t());
        return {y.view({x.size(0), x.size(1), weight.size(0)}), x};
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto t = context->get_saved_variables();
        const auto& x = t[0];
        const auto& weight = t[1];
        const auto dy = outputs[0].contiguous();
        // In place: only the branch after this product reads the other gradient, and its backward pass is
        // already queued.
        auto dx = outputs[1].defined() ? outputs[1].contiguous() : Tensor();
        if (dx.defined())
            as_matrix(dx).addmm_(as_matrix(dy), weight);
        else
            dx = torch::mm(as_matrix(dy), weight).view_as(x);
        const auto dweight = torch::mm(as_matrix(dy).t(), as_matrix(x));
        Tensor dbias;
        if (t[2].numel() > 0) {
            const auto rows = rows_of(dy, t[3]);
            dbias = torch::empty_like(t[2]);
            const auto workspace = workspace_for(rows, dy);
            ops::column_sums(rows, dy.data_ptr(), current_stream(),
                             {workspace.data_ptr<float>(), dbias.data_ptr<float>()});
        }
        return {dx, dweight, dbias, Tensor()};
    }
};

struct Means : torch::autograd::Function<Means> {
    static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& lengths) {
        context->save_for_backward({x, lengths});
        auto y = new_floats({x.size(0), x.size(2)}, x);
        ops::document_means(rows_of(x, lengths), x.data_ptr(), current_stream(), y.data_ptr<float>());
        return y;
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto t = context->get_saved_variables();
        const auto dx = torch::empty_like(t[0]);
        const auto dy = outputs[0].contiguous();
        ops::document_means_backward(rows_of(dx, t[1]), dy.data_ptr<float>(), current_stream(),
                                     dx.data_ptr());
        return {dx, Tensor()};
    }
};

Tensor known_lengths(const Tensor& lengths, const Tensor& like) {
    return lengths.defined() ? lengths : torch::empty({0}, like.options().dtype(torch::kInt));
}
Tensor known_seed(const TokenDropout& dropout, const Tensor& like) {
    return dropout.share > 0.0 ? dropout.seed : torch::empty({0}, like.options().dtype(torch::kLong));
}

}  // namespace

bool has_fused_passes(const PerformerConfig& model, const torch::Device& device) {
    return device.is_cuda() && model.width % 8 == 0 && model.width <= kMostNormWidth &&
           model.hidden % 8 == 0 && model.hidden <= kMostWidth;
}

ResidualResult fused_residual_norm(const Tensor& x, const ResidualPart& part, const NormPart& norm,
                                   const Tensor& lengths) {
    const auto f = part.f.defined() ? part.f.to(x.dtype()).contiguous() : part.f;
    const auto results =
        ResidualNorm::apply(x.contiguous(), or_empty(f, x), or_empty(part.bias, norm.weight), norm.weight,
                            norm.bias, known_lengths(lengths, x), known_seed(part.dropout, x),
                            part.dropout.share, part.dropout.position, norm.epsilon, part.keep_sum);
    return {part.keep_sum ? results[1] : Tensor(), results[0]};
}

Tensor fused_embedding(const Tensor& tokens, const EmbeddingPart& part, const NormPart& norm,
                       const Tensor& lengths) {
    const auto bias = part.table ? torch::empty({0}, part.weight.options()) : part.bias;
    return EmbeddingNorm::apply(tokens.contiguous(), part.weight, bias, part.positions, norm.weight,
                                norm.bias, known_lengths(lengths, tokens), known_seed(part.dropout, tokens),
                                part.dropout.share, part.dropout.position, norm.epsilon,
                                1.0 / (255.0 * part.pixel_std), -part.pixel_mean / part.pixel_std, part.scale,
                                part.type == torch::kBFloat16);
}

Tensor fused_activation(const Tensor& x, const Tensor& bias, Activation activation, const Tensor& lengths) {
    return BiasActivation::apply(x.contiguous(), bias, known_lengths(lengths, x),
                                 static_cast<std::int64_t>(activation));
}

ForkedProduct fused_product(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& lengths) {
    const auto results =
        Forked::apply(x.contiguous(), weight, or_empty(bias, weight), known_lengths(lengths, x));
    return {results[0], results[1]};
}

Tensor fused_means(const Tensor& x, const Tensor& lengths) {
    return Means::apply(x.contiguous(), known_lengths(lengths, x));
}

}  // namespace imka
