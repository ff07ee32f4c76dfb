// Exact and kernelised attention of arrays (batch, heads, length, size).
#include "imka/attention/attention.hpp"

#include <fmt/format.h>

#include <memory>

#include "arrays.hpp"
#include "imka/base/error.hpp"
#include "interruptible.hpp"
#include "module.hpp"
#include "on_chip.hpp"
#include "settings.hpp"

namespace imka::python {
namespace {

using Tokens = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Masks = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NumpyTokens = nb::ndarray<nb::numpy, float, nb::ndim<4>>;

// The arrays of a call, one sequence per entry of the batch.
struct Batch {
    std::vector<AttentionInputs> inputs;
    std::size_t heads = 0;
    std::size_t queries = 0;
    std::size_t value_size = 0;
};

HeadsView<const float> sequence(const Tokens& x, std::size_t i) {
    const HeadsShape shape{x.shape(1), x.shape(2), x.shape(3)};
    return heads_first(x.data() + i * shape.heads * shape.length * shape.size, shape);
}

Batch batch_of(const Tokens& q, const Tokens& k, const Tokens& v, const std::optional<Masks>& mask) {
    const std::size_t n = q.shape(0);
    if (k.shape(0) != n || v.shape(0) != n || (mask && mask->shape(0) != n))
        fail(ErrorCode::bad_data,
             fmt::format("attention: {} sequences of queries, {} of keys, {} of values{}", n, k.shape(0),
                         v.shape(0), mask ? fmt::format(", {} masks", mask->shape(0)) : ""));
    Batch batch{.inputs = {}, .heads = q.shape(1), .queries = q.shape(2), .value_size = v.shape(3)};
    for (std::size_t i = 0; i < n; ++i) {
        AttentionInputs one{sequence(q, i), sequence(k, i), sequence(v, i)};
        if (mask) one.key_mask = {mask->data() + i * mask->shape(1), mask->shape(1)};
        batch.inputs.push_back(one);
    }
    return batch;
}

// Calls run(inputs, outputs, exec) and returns the outputs.
template <class Run>
NumpyTokens outputs_of(const Batch& batch, const PyExec& exec, const Run& run) {
    const HeadsShape shape{batch.heads, batch.queries, batch.value_size};
    const std::size_t rows = batch.inputs.size() * shape.heads * shape.length;
    check_fits_memory(static_cast<double>(rows), static_cast<double>(shape.size), sizeof(float),
                      "the output");
    auto matrix = interruptible(exec, [&](const Exec& e) {
        UnsetMatrix<float> out(rows, shape.size);
        std::vector<HeadsView<float>> views;
        for (std::size_t i = 0; i < batch.inputs.size(); ++i)
            views.push_back(heads_first(out.data() + i * shape.heads * shape.length * shape.size, shape));
        run(std::span(batch.inputs), std::span<const HeadsView<float>>(views), e);
        return out;
    });
    const auto [values, owner] = owned(std::move(matrix));
    return {values->data(), {batch.inputs.size(), shape.heads, shape.length, shape.size}, owner};
}

NumpyTokens exact(const Tokens& q, const Tokens& k, const Tokens& v, const std::optional<Masks>& mask,
                  bool causal, std::optional<double> scale, const PyExec& exec) {
    return outputs_of(batch_of(q, k, v, mask), exec, [&](auto inputs, auto out, const Exec& e) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
            exact_attention(inputs[i], {.causal = causal, .scale = scale}, e, out[i]);
    });
}

AttentionConfig config_of(const Settings& settings) {
    AttentionConfig config;
    apply_settings(settings, fields(config));
    validate(config);
    return config;
}

// Attention, and the chip that computes its projections, if any.
struct Attention {
    KernelAttention attention;
    std::optional<BuiltChip> chip = {};
};

struct Drawn {
    std::int64_t d;
    std::uint64_t seed;
    std::uint64_t layer;
    std::uint64_t redraws;
};

Matrix<float> omega_of(const AttentionConfig& config, const Drawn& drawn, bool on_chip) {
    const OmegaDraw draw{.seed = drawn.seed, .layer = drawn.layer, .redraws = drawn.redraws};
    return sample(omega_recipe(config, drawn.d, draw, on_chip));
}

Attention digital(const Settings& settings, std::int64_t d, std::uint64_t seed, std::uint64_t layer,
                  std::uint64_t redraws) {
    const auto config = config_of(settings);
    return {.attention = KernelAttention(config, omega_of(config, {d, seed, layer, redraws}, false))};
}

Attention attention_on(BuiltChip built, const AttentionConfig& config, const Exec& exec) {
    return {.attention = KernelAttention(config, projector_on(built, exec)), .chip = std::move(built)};
}

// rows: queries and keys for the calibration of the chip.
Attention on_chip(const Settings& settings, const Settings& build, const ChipSpec& chip,
                  const FloatRows& rows, double input_scale, std::uint64_t seed, std::uint64_t layer,
                  std::uint64_t redraws, const PyExec& exec) {
    const auto config = config_of(settings);
    const auto building = build_config(build);
    const auto inputs = view_of(rows);
    return interruptible(exec, [&](const Exec& e) {
        const auto omega =
            omega_of(config, {static_cast<std::int64_t>(inputs.cols()), seed, layer, redraws}, true);
        return attention_on(build_chip(ProjectionJob{.chip = chip,
                                                     .omega = omega,
                                                     .inputs = inputs,
                                                     .config = building,
                                                     .seed = seed,
                                                     .input_scale = input_scale},
                                       e),
                            config, e);
    });
}

Attention load_on_chip(const Settings& settings, const ChipParts& parts, const PyExec& exec) {
    const auto config = config_of(settings);
    return interruptible(exec, [&](const Exec& e) { return attention_on(read_chip(parts), config, e); });
}

NumpyTokens run(const Attention& self, const Tokens& q, const Tokens& k, const Tokens& v,
                const std::optional<Masks>& mask, bool causal, std::optional<double> scale,
                std::uint64_t seed, const PyExec& exec) {
    const AttentionOptions options{.causal = causal, .scale = scale, .product_seed = seed};
    return outputs_of(batch_of(q, k, v, mask), exec, [&](auto inputs, auto out, const Exec& e) {
        self.attention.run(inputs, options, e, out);
    });
}

// Attention one token at a time. Keeps the attention object alive.
struct State {
    nb::object owner;
    AttentionState state;
    std::size_t value_size;
};

State start_state(nb::object owner, std::size_t heads, std::size_t key_heads, std::size_t value_size,
                  std::optional<double> scale) {
    const auto& self = nb::cast<const Attention&>(owner);
    AttentionState state(self.attention, {.heads = heads, .key_heads = key_heads, .value_size = value_size},
                         {.causal = true, .scale = scale});
    return {std::move(owner), std::move(state), value_size};
}

NumpyMatrix<float> append(State& state, const FloatRows& q, const FloatRows& k, const FloatRows& v) {
    Matrix<float> out(q.shape(0), state.value_size);
    state.state.append(view_of(q), view_of(k), view_of(v), out.view());
    return to_numpy(std::move(out));
}

nb::list forms() {
    nb::list list;
    for (const auto& row : ops::attention_forms()) {
        nb::dict entry;
        entry["name"] = std::string(to_string(row.form));
        entry["features"] = std::string(row.formula);
        entry["per_direction"] = row.per_direction;
        list.append(entry);
    }
    return list;
}

}  // namespace

void bind_attention(nb::module_& m) {
    m.def("attention_forms", &forms, "The features of kernelised attention.");
    m.def("exact_attention", &exact, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask").none(),
          nb::arg("causal"), nb::arg("scale").none(), nb::arg("exec"));
    nb::class_<Attention>(m, "KernelAttention", "Kernelised attention with drawn directions.")
        .def_prop_ro("d", [](const Attention& a) { return a.attention.inputs(); })
        .def_prop_ro("m", [](const Attention& a) { return a.attention.outputs(); })
        .def_prop_ro("n_features", [](const Attention& a) { return a.attention.features(); })
        .def(
            "save_chip",
            [](const Attention& a, const std::filesystem::path& path) { return save_chip(a.chip, path); },
            nb::arg("path"), "Writes the chip to a file; None without a chip.")
        .def("run", &run, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask").none(), nb::arg("causal"),
             nb::arg("scale").none(), nb::arg("seed"), nb::arg("exec"));
    m.def("kernel_attention", &digital, nb::arg("settings"), nb::arg("d"), nb::arg("seed"), nb::arg("layer"),
          nb::arg("redraws"));
    m.def("kernel_attention_on_chip", &on_chip, nb::arg("settings"), nb::arg("build"), nb::arg("chip"),
          nb::arg("rows"), nb::arg("input_scale"), nb::arg("seed"), nb::arg("layer"), nb::arg("redraws"),
          nb::arg("exec"));
    m.def("load_attention_on_chip", &load_on_chip, nb::arg("settings"), nb::arg("chip"), nb::arg("exec"));
    nb::class_<State>(m, "AttentionState", "Causal attention one token after another.")
        .def("append", &append, nb::arg("q"), nb::arg("k"), nb::arg("v"))
        .def_prop_ro("tokens", [](const State& s) { return s.state.tokens(); })
        .def_prop_ro("nbytes", [](const State& s) { return s.state.bytes(); });
    m.def("attention_state", &start_state, nb::arg("attention"), nb::arg("heads"), nb::arg("key_heads"),
          nb::arg("value_size"), nb::arg("scale").none());
}

}  // namespace imka::python
