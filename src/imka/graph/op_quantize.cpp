// Quantised tensors: quantise, dequantise, and products of integers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

bool is_quantized(DType type) {
    return type == DType::u8 || type == DType::i8 || type == DType::u16 || type == DType::i16 ||
           type == DType::i32;
}

// The zero point has as many elements as the scale.
void check_zero_point(const Inference& i, std::size_t scale, std::size_t zero) {
    if (!i.has(zero) || !i.ranked(zero) || !i.ranked(scale)) return;
    const auto count = [&](std::size_t k) { return i.dims(k).empty() ? Dim{1} : i.dims(k)[0]; };
    if (i.dims(zero).size() > 1) fail_node(i.node, "the zero point must have at most 1 axis");
    (void)same_dim(i.node, count(scale), count(zero));
}

// The scale is one number, or one per element of the axis.
void check_scale(const Inference& i, std::size_t scale) {
    if (!i.ranked(0) || !i.ranked(scale)) return;
    if (i.dims(scale).size() > 1)
        fail_unsupported(
            i.node,
            "blockwise scales are not supported; use one scale per tensor or one per element of the axis");
    const bool one = i.dims(scale).empty() || i.dims(scale)[0].size == 1;
    if (one) return;
    const auto axis = axis_of(i.node, int_attribute(i.node, "axis", 1), i.dims(0).size());
    (void)same_dim(i.node, i.dims(0)[axis], i.dims(scale)[0]);
}

void infer_quantize(Inference& i) {
    check_scale(i, 1);
    check_zero_point(i, 1, 2);
    const auto type = i.has(2) ? i.type(2) : dtype_attribute(i.node, "output_dtype", DType::u8);
    if (!is_quantized(type)) fail_type(i.node, type);
    if (i.type(0) != DType::f32 || i.type(1) != DType::f32)
        fail_type(i.node, i.type(0) != DType::f32 ? i.type(0) : i.type(1));
    i.set(0, type, i.inputs[0].type->dims);
}

void infer_dequantize(Inference& i) {
    check_scale(i, 1);
    check_zero_point(i, 1, 2);
    check_same_type(i, 0, 2);
    if (!is_quantized(i.type(0))) fail_type(i.node, i.type(0));
    if (i.type(1) != DType::f32) fail_type(i.node, i.type(1));
    i.set(0, DType::f32, i.inputs[0].type->dims);
}

// Index of the scale of each element.
struct ScaleIndex {
    std::size_t inner = 1;
    std::size_t count = 1;
    std::size_t operator()(std::size_t element) const { return element / inner % count; }
};

ScaleIndex scale_index(const Operands& o) {
    const auto count = o.in(1).count();
    if (count == 1) return {1, 1};
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 1), o.in(0).shape.size());
    return {around(o.in(0).shape, axis).inner, count};
}

template <class T>
T saturated(double value) {
    return static_cast<T>(std::clamp(value, static_cast<double>(std::numeric_limits<T>::lowest()),
                                     static_cast<double>(std::numeric_limits<T>::max())));
}

template <class T>
T quantized(float x, float scale, double zero) {
    const double q = std::nearbyint(x / scale) + zero;
    return std::isnan(q) ? T{0} : saturated<T>(q);
}

template <class F>
void with_quantized_type(const Node& node, DType type, const F& f) {
    visit_dtype(type, [&](auto zero) {
        if constexpr (std::is_integral_v<decltype(zero)>) {
            f(zero);
        } else {
            fail_type(node, type);
        }
    });
}

void run_quantize(const Operands& o) {
    const auto at = scale_index(o);
    const auto scale = o.in(1).values<float>();
    with_quantized_type(o.node, o.out(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto x = o.in(0).template values<float>();
        const auto out = o.out(0).template values<T>();
        for (std::size_t k = 0; k < x.size(); ++k) {
            const double z = o.has(2) ? static_cast<double>(o.in(2).template values<T>()[at(k)]) : 0.0;
            out[k] = quantized<T>(x[k], scale[at(k)], z);
        }
    });
}

void run_dequantize(const Operands& o) {
    const auto at = scale_index(o);
    const auto scale = o.in(1).values<float>();
    const auto out = o.out(0).values<float>();
    with_quantized_type(o.node, o.in(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto x = o.in(0).template values<T>();
        for (std::size_t k = 0; k < x.size(); ++k) {
            const double z = o.has(2) ? static_cast<double>(o.in(2).template values<T>()[at(k)]) : 0.0;
            out[k] = static_cast<float>((static_cast<double>(x[k]) - z) * scale[at(k)]);
        }
    });
}

void infer_dynamic_quantize(Inference& i) {
    if (i.type(0) != DType::f32) fail_type(i.node, i.type(0));
    i.set(0, DType::u8, i.inputs[0].type->dims);
    i.set(1, DType::f32, Dims{});
    i.set(2, DType::u8, Dims{});
}

void run_dynamic_quantize(const Operands& o) {
    const auto x = o.in(0).values<float>();
    float low = 0.0F;
    float high = 0.0F;
    for (const float v : x) {
        low = std::min(low, v);
        high = std::max(high, v);
    }
    const float scale = (high - low) / 255.0F;
    const auto zero = scale == 0.0F ? std::uint8_t{0} : quantized<std::uint8_t>(-low, scale, 0.0);
    if (o.wants(1)) o.out(1).values<float>()[0] = scale;
    if (o.wants(2)) o.out(2).values<std::uint8_t>()[0] = zero;
    for (std::size_t k = 0; o.wants(0) && k < x.size(); ++k)
        o.out(0).values<std::uint8_t>()[k] =
            scale == 0.0F ? zero : quantized<std::uint8_t>(x[k], scale, zero);
}

// Products of integer matrices a and b, with zero points, which may be one per row of a or column of b.
struct IntegerProduct {
    const TensorView* a;
    const TensorView* a_zero;  // null: 0
    const TensorView* b;
    const TensorView* b_zero;
};

std::vector<std::int64_t> without_zero(const TensorView& t, const TensorView* zero, bool per_row) {
    auto values = to_ints(t);
    if (zero == nullptr) return values;
    const auto zeros = to_ints(*zero);
    const auto cols = static_cast<std::size_t>(t.shape.back());
    const auto rows = static_cast<std::size_t>(t.shape[t.shape.size() - 2]);
    if (zeros.size() != 1 && zeros.size() != (per_row ? rows : cols))
        fail(ErrorCode::bad_data, "a zero point of a product has the wrong number of elements");
    for (std::size_t k = 0; k < values.size(); ++k)
        values[k] -= zeros[zeros.size() == 1 ? 0 : per_row ? k / cols % rows : k % cols];
    return values;
}

// sum(batch, row, column) for all elements of the product.
template <class Store>
void integer_product(const IntegerProduct& p, const Store& store) {
    const auto a = without_zero(*p.a, p.a_zero, true);
    const auto b = without_zero(*p.b, p.b_zero, false);
    const auto rows = static_cast<std::size_t>(p.a->shape[p.a->shape.size() - 2]);
    const auto inner = static_cast<std::size_t>(p.a->shape.back());
    const auto cols = static_cast<std::size_t>(p.b->shape.back());
    const std::size_t batch = a.size() / std::max<std::size_t>(1, rows * inner);
    const bool shared = p.b->shape.size() == 2;
    for (std::size_t n = 0; n < batch * rows * cols; ++n) {
        const std::size_t row = n / cols;
        const std::int64_t* left = a.data() + row * inner;
        const std::int64_t* right = b.data() + (shared ? 0 : row / rows * inner * cols) + n % cols;
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < inner; ++k) sum += left[k] * right[k * cols];
        store(n, sum);
    }
}

void infer_integer_product(Inference& i, std::size_t a, std::size_t b, DType type) {
    for (const auto k : {a, b}) {
        if (i.type(k) != DType::u8 && i.type(k) != DType::i8) fail_type(i.node, i.type(k));
    }
    if (!i.ranked(a) || !i.ranked(b)) return i.set(0, type, std::nullopt);
    const auto& x = i.dims(a);
    const auto& w = i.dims(b);
    if (x.size() < 2 || w.size() < 2 || (w.size() != 2 && w.size() != x.size()))
        fail_unsupported(i.node, "integer products need matrices, or batches of equal shape");
    (void)same_dim(i.node, x.back(), w[w.size() - 2]);
    Dims dims = x;
    if (w.size() > 2) {
        for (std::size_t k = 0; k + 2 < x.size(); ++k) dims[k] = same_dim(i.node, x[k], w[k]);
    }
    dims.back() = w.back();
    i.set(0, type, std::move(dims));
}

void infer_matmul_integer(Inference& i) {
    infer_integer_product(i, 0, 1, DType::i32);
}

void run_matmul_integer(const Operands& o) {
    const auto out = o.out(0).values<std::int32_t>();
    integer_product({&o.in(0), o.has(2) ? &o.in(2) : nullptr, &o.in(1), o.has(3) ? &o.in(3) : nullptr},
                    [&](std::size_t k, std::int64_t sum) { out[k] = static_cast<std::int32_t>(sum); });
}

void infer_qlinear_matmul(Inference& i) {
    if (i.type(7) != DType::u8 && i.type(7) != DType::i8) fail_type(i.node, i.type(7));
    infer_integer_product(i, 0, 3, i.type(7));
    for (const std::size_t k : {1U, 4U, 6U}) {
        if (i.type(k) != DType::f32) fail_type(i.node, i.type(k));
        const bool one = !i.ranked(k) || i.dims(k).empty() || i.dims(k)[0].size == 1 || !i.dims(k)[0].known();
        if (!one) fail_unsupported(i.node, "only one scale per tensor is supported");
    }
}

void run_qlinear_matmul(const Operands& o) {
    const double scale = to_number(o.in(1)) * to_number(o.in(4)) / to_number(o.in(6));
    const double zero = to_number(o.in(7));
    const auto store = [&](auto out) {
        using T = std::remove_reference_t<decltype(out[0])>;
        integer_product({&o.in(0), &o.in(2), &o.in(3), &o.in(5)}, [&](std::size_t k, std::int64_t sum) {
            out[k] = saturated<T>(std::nearbyint(static_cast<double>(sum) * scale) + zero);
        });
    };
    o.out(0).type == DType::u8 ? store(o.out(0).values<std::uint8_t>())
                               : store(o.out(0).values<std::int8_t>());
}

}  // namespace

std::span<const Operator> quantize_operators() {
    static const Operator rows[] = {
        {"QuantizeLinear", 10, 2, 3, infer_quantize, run_quantize},
        {"DequantizeLinear", 10, 2, 3, infer_dequantize, run_dequantize},
        {"DynamicQuantizeLinear", 11, 1, 1, infer_dynamic_quantize, run_dynamic_quantize},
        {"MatMulInteger", 10, 2, 4, infer_matmul_integer, run_matmul_integer},
        {"QLinearMatMul", 10, 8, 8, infer_qlinear_matmul, run_qlinear_matmul},
    };
    return rows;
}

}  // namespace imka::graph
