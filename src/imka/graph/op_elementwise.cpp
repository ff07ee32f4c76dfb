// Operators that compute each element from one element of each input: arithmetic, comparisons, activations.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "imka/graph/elementwise.hpp"
#include "imka/ops/activation/activation.hpp"

namespace imka::graph {
namespace {

template <class C>
inline constexpr bool kFloating = std::is_floating_point_v<C>;

// Calls f(C{}) with the type in which elements of `type` are computed.
template <class F>
void with_wide_type(DType type, const F& f) {
    visit_dtype(type, [&](auto zero) { f(Wide<decltype(zero)>{}); });
}

// Functions of two elements. A function that cannot take a type has no overload for it.
struct Add {
    template <class C>
    C operator()(C a, C b) const {
        return add_wrapped(a, b);
    }
};
struct Sub {
    template <class C>
    C operator()(C a, C b) const {
        return sub_wrapped(a, b);
    }
};
struct Mul {
    template <class C>
    C operator()(C a, C b) const {
        return mul_wrapped(a, b);
    }
};
// Integers: the quotient rounded to zero; a division by zero gives 0.
struct Div {
    template <class C>
    C operator()(C a, C b) const {
        if constexpr (kFloating<C>) {
            return a / b;
        } else if constexpr (std::is_signed_v<C>) {
            if (b == -1) return sub_wrapped(C{0}, a);
            return b == 0 ? C{0} : a / b;
        } else {
            return b == 0 ? C{0} : a / b;
        }
    }
};
// The sign of the divisor, as in Python.
struct Mod {
    template <class C>
    C operator()(C a, C b) const {
        if constexpr (kFloating<C>) {
            const C r = std::fmod(a, b);
            return r != 0 && (r < 0) != (b < 0) ? r + b : r;
        } else {
            if (b == 0) return 0;
            if constexpr (std::is_signed_v<C>) {
                if (b == -1) return 0;
                const C r = a % b;
                return r != 0 && (r < 0) != (b < 0) ? r + b : r;
            } else {
                return a % b;
            }
        }
    }
};
// The sign of the dividend, as in C.
struct Fmod {
    template <class C>
    C operator()(C a, C b) const {
        if constexpr (kFloating<C>) {
            return std::fmod(a, b);
        } else {
            if (b == 0) return 0;
            if constexpr (std::is_signed_v<C>) {
                if (b == -1) return 0;
            }
            return a % b;
        }
    }
};
struct Max {
    template <class C>
    C operator()(C a, C b) const {
        return is_nan(a) || a > b ? a : b;  // NaN if one is NaN
    }
};
struct Min {
    template <class C>
    C operator()(C a, C b) const {
        return is_nan(a) || a < b ? a : b;
    }
};
struct BitAnd {
    template <class C>
    requires(!kFloating<C>) C operator()(C a, C b) const { return a & b; }
};
struct BitOr {
    template <class C>
    requires(!kFloating<C>) C operator()(C a, C b) const { return a | b; }
};
struct BitXor {
    template <class C>
    requires(!kFloating<C>) C operator()(C a, C b) const { return a ^ b; }
};
struct ShiftLeft {
    template <class C>
    requires(!kFloating<C>) C operator()(C a, C b) const {
        return b < 0 || b > 63
                   ? C{0}
                   : static_cast<C>(static_cast<std::uint64_t>(a) << static_cast<std::uint64_t>(b));
    }
};
struct ShiftRight {
    template <class C>
    requires(!kFloating<C>) C operator()(C a, C b) const {
        return b < 0 || b > 63
                   ? C{0}
                   : static_cast<C>(static_cast<std::uint64_t>(a) >> static_cast<std::uint64_t>(b));
    }
};
struct PRelu {
    template <class C>
    C operator()(C a, C slope) const {
        return a < 0 ? mul_wrapped(a, slope) : a;
    }
};

// Comparisons and logic.
struct Equal {
    template <class C>
    bool operator()(C a, C b) const {
        return a == b;
    }
};
struct Less {
    template <class C>
    bool operator()(C a, C b) const {
        return a < b;
    }
};
struct Greater {
    template <class C>
    bool operator()(C a, C b) const {
        return a > b;
    }
};
struct LessOrEqual {
    template <class C>
    bool operator()(C a, C b) const {
        return a <= b;
    }
};
struct GreaterOrEqual {
    template <class C>
    bool operator()(C a, C b) const {
        return a >= b;
    }
};
struct And {
    template <class C>
    bool operator()(C a, C b) const {
        return a != 0 && b != 0;
    }
};
struct Or {
    template <class C>
    bool operator()(C a, C b) const {
        return a != 0 || b != 0;
    }
};
struct Xor {
    template <class C>
    bool operator()(C a, C b) const {
        return (a != 0) != (b != 0);
    }
};

// Elements of an input along a run: many, or one for the whole run.
template <class C>
struct RunInput {
    const C* data;
    bool repeated;
};

// Three loops, so that each is simple for the compiler.
template <class F, class C, class R>
void binary_loop(const F& f, RunInput<C> a, RunInput<C> b, std::span<R> out) {
    if (a.repeated) {
        const C x = a.data[0];
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(x, b.data[b.repeated ? 0 : i]);
    } else if (b.repeated) {
        const C y = b.data[0];
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(a.data[i], y);
    } else {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(a.data[i], b.data[i]);
    }
}

template <class C, class R, class F>
void apply_binary(const F& f, const TensorView& a, const TensorView& b, const Exec& exec,
                  const MutableTensorView& out) {
    const Broadcast runs(out.shape, {&a, &b});
    const bool direct = dtype_of<R>() == out.type;
    for_blocks(runs, 2, exec, [&](std::size_t at, std::size_t count, const std::vector<BroadcastRun>& in) {
        std::array<C, kBlock> x;
        std::array<C, kBlock> y;
        std::array<R, kBlock> z;
        const bool native = direct && dtype_of<C>() == a.type && dtype_of<C>() == b.type;
        const std::size_t step = native ? count : kBlock;
        for (std::size_t i = 0; i < count; i += step) {
            const std::size_t n = std::min(step, count - i);
            const auto* left =
                load_block(a, in[0].offset + (in[0].repeated ? 0 : i), in[0].repeated ? 1 : n, x);
            const auto* right =
                load_block(b, in[1].offset + (in[1].repeated ? 0 : i), in[1].repeated ? 1 : n, y);
            R* to = direct ? reinterpret_cast<R*>(out.data) + at + i : z.data();
            binary_loop(f, RunInput<C>{left, in[0].repeated}, RunInput<C>{right, in[1].repeated},
                        std::span<R>(to, n));
            if (!direct) store_block(z, at + i, n, out);
        }
    });
}

template <class F>
void binary(const Node& node, const TensorView& a, const TensorView& b, const Exec& exec,
            const MutableTensorView& out) {
    with_wide_type(a.type, [&](auto zero) {
        using C = decltype(zero);
        if constexpr (std::is_invocable_v<F, C, C>) {
            apply_binary<C, C>(F(), a, b, exec, out);
        } else {
            fail_type(node, a.type);
        }
    });
}

template <class F>
void run_binary(const Operands& o) {
    binary<F>(o.node, o.in(0), o.in(1), o.exec, o.out(0));
}

template <class F>
void run_compare(const Operands& o) {
    with_wide_type(o.in(0).type, [&](auto zero) {
        apply_binary<decltype(zero), bool>(F(), o.in(0), o.in(1), o.exec, o.out(0));
    });
}

TensorView constant_view(const MutableTensorView& t) {
    return {t.type, t.shape, t.data};
}

template <class F>
void run_variadic(const Operands& o) {
    expand(o.in(0), o.exec, o.out(0));
    for (std::size_t k = 1; k < o.inputs.size(); ++k)
        binary<F>(o.node, constant_view(o.out(0)), o.in(k), o.exec, o.out(0));
}

void run_mean(const Operands& o) {
    run_variadic<Add>(o);
    const auto n = static_cast<double>(o.inputs.size());
    with_wide_type(o.out(0).type, [&](auto zero) {
        const auto count = make_tensor<decltype(zero)>({}, std::vector{converted<decltype(zero)>(n)});
        apply_binary<decltype(zero), decltype(zero)>(Div(), constant_view(o.out(0)), count.view(), o.exec,
                                                     o.out(0));
    });
}

void run_mod(const Operands& o) {
    int_attribute(o.node, "fmod", 0) != 0 ? run_binary<Fmod>(o) : run_binary<Mod>(o);
}

void run_bit_shift(const Operands& o) {
    const auto direction = text_attribute(o.node, "direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        fail_node(o.node, fmt::format("direction must be LEFT or RIGHT, not {}", in_quotes(direction)));
    direction == "LEFT" ? run_binary<ShiftLeft>(o) : run_binary<ShiftRight>(o);
}

// The exponent may have a different type from the base.
void run_pow(const Operands& o) {
    const auto power = [](double a, double b) { return std::pow(a, b); };
    if (o.in(0).type == DType::f32 && o.in(1).type == DType::f32) {
        const auto powf = [](float a, float b) { return b == 2.0F ? a * a : std::pow(a, b); };
        return apply_binary<float, float>(powf, o.in(0), o.in(1), o.exec, o.out(0));
    }
    apply_binary<double, double>(power, o.in(0), o.in(1), o.exec, o.out(0));
}

void infer_arithmetic(Inference& i) {
    for (std::size_t k = 1; k < i.inputs.size(); ++k) check_same_type(i, 0, k);
    infer_broadcast(i);
}

void infer_compare(Inference& i) {
    infer_arithmetic(i);
    i.outputs[0].type = DType::bool_;
}

void infer_bool(Inference& i) {
    i.set(0, DType::bool_, i.inputs[0].type->dims);
}

// Functions of one element with up to two constants; C is float or double, or an integer where that makes
// sense.
struct Constants {
    double alpha = 0.0;
    double beta = 0.0;
};

template <class C, class R, class F>
void apply_unary(const F& f, const TensorView& in, const Exec& exec, const MutableTensorView& out) {
    for_parts(exec, in.count(), kPart, [&](std::size_t first, std::size_t count) {
        std::array<C, kBlock> x;
        std::array<R, kBlock> z;
        const bool direct = dtype_of<R>() == out.type;
        for (std::size_t i = first; i < first + count; i += kBlock) {
            const std::size_t n = std::min(kBlock, first + count - i);
            const auto* from = load_block(in, i, n, x);
            R* to = direct ? reinterpret_cast<R*>(out.data) + i : z.data();
            for (std::size_t k = 0; k < n; ++k) to[k] = f(from[k]);
            if (!direct) store_block(z, i, n, out);
        }
    });
}

// F::f(x, constants), for floats; for integers too if F::kIntegers.
template <class F>
void run_unary(const Operands& o) {
    const Constants c = F::constants(o.node);
    with_wide_type(o.in(0).type, [&](auto zero) {
        using C = decltype(zero);
        if constexpr (kFloating<C> || F::kIntegers) {
            apply_unary<C, C>([&](C x) { return static_cast<C>(F::f(x, c)); }, o.in(0), o.exec, o.out(0));
        } else {
            fail_type(o.node, o.in(0).type);
        }
    });
}

struct FloatFunction {
    static constexpr bool kIntegers = false;
    static Constants constants(const Node&) { return {}; }
};
struct AnyFunction : FloatFunction {
    static constexpr bool kIntegers = true;
};

#define IMKA_FLOAT_FUNCTION(Name, expression)  \
    struct Name : FloatFunction {              \
        template <class C>                     \
        static C f(C x, const Constants&) {    \
            return static_cast<C>(expression); \
        }                                      \
    }
IMKA_FLOAT_FUNCTION(Acos, std::acos(x));
IMKA_FLOAT_FUNCTION(Acosh, std::acosh(x));
IMKA_FLOAT_FUNCTION(Asin, std::asin(x));
IMKA_FLOAT_FUNCTION(Asinh, std::asinh(x));
IMKA_FLOAT_FUNCTION(Atan, std::atan(x));
IMKA_FLOAT_FUNCTION(Atanh, std::atanh(x));
IMKA_FLOAT_FUNCTION(Ceil, std::ceil(x));
IMKA_FLOAT_FUNCTION(Cos, std::cos(x));
IMKA_FLOAT_FUNCTION(Cosh, std::cosh(x));
IMKA_FLOAT_FUNCTION(Erf, std::erf(x));
IMKA_FLOAT_FUNCTION(Exp, std::exp(x));
IMKA_FLOAT_FUNCTION(Floor, std::floor(x));
IMKA_FLOAT_FUNCTION(HardSwish, x* std::fmax(C{0}, std::fmin(C{1}, x / C{6} + C{0.5})));
IMKA_FLOAT_FUNCTION(Log, std::log(x));
IMKA_FLOAT_FUNCTION(Mish, x* std::tanh(std::log1p(std::exp(x))));
IMKA_FLOAT_FUNCTION(Reciprocal, C{1} / x);
IMKA_FLOAT_FUNCTION(Round, std::nearbyint(x));
IMKA_FLOAT_FUNCTION(Sigmoid, C{1} / (C{1} + std::exp(-x)));
IMKA_FLOAT_FUNCTION(Sin, std::sin(x));
IMKA_FLOAT_FUNCTION(Sinh, std::sinh(x));
IMKA_FLOAT_FUNCTION(Softplus, x > C{0} ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
IMKA_FLOAT_FUNCTION(Softsign, x / (C{1} + std::abs(x)));
IMKA_FLOAT_FUNCTION(Sqrt, std::sqrt(x));
IMKA_FLOAT_FUNCTION(Tan, std::tan(x));
IMKA_FLOAT_FUNCTION(Tanh, std::tanh(x));
#undef IMKA_FLOAT_FUNCTION

struct Abs : AnyFunction {
    template <class C>
    static C f(C x, const Constants&) {
        if constexpr (kFloating<C>) return std::abs(x);
        if constexpr (std::is_signed_v<C>) return x < 0 ? sub_wrapped(C{0}, x) : x;
        return x;
    }
};
struct Neg : AnyFunction {
    template <class C>
    static C f(C x, const Constants&) {
        if constexpr (kFloating<C>) return -x;
        return sub_wrapped(C{0}, x);
    }
};
struct Sign : AnyFunction {
    template <class C>
    static C f(C x, const Constants&) {
        if (is_nan(x)) return x;
        return static_cast<C>(static_cast<int>(x > C{0}) - static_cast<int>(x < C{0}));
    }
};
struct Relu : AnyFunction {
    template <class C>
    static C f(C x, const Constants&) {
        return x < C{0} ? C{0} : x;  // keeps NaN
    }
};
struct BitwiseNot : AnyFunction {
    template <class C>
    static C f(C x, const Constants&) {
        if constexpr (kFloating<C>) {
            return x;
        } else {
            return static_cast<C>(~static_cast<std::uint64_t>(x));
        }
    }
};

struct Elu : FloatFunction {
    static Constants constants(const Node& n) { return {float_attribute(n, "alpha", 1.0F)}; }
    template <class C>
    static C f(C x, const Constants& c) {
        return x < C{0} ? static_cast<C>(c.alpha) * std::expm1(x) : x;
    }
};
struct Celu : FloatFunction {
    static Constants constants(const Node& n) { return {float_attribute(n, "alpha", 1.0F)}; }
    template <class C>
    static C f(C x, const Constants& c) {
        const auto a = static_cast<C>(c.alpha);
        return x < C{0} ? a * std::expm1(x / a) : x;
    }
};
struct Selu : FloatFunction {
    static Constants constants(const Node& n) {
        return {float_attribute(n, "alpha", 1.67326319217681884765625F),
                float_attribute(n, "gamma", 1.05070102214813232421875F)};
    }
    template <class C>
    static C f(C x, const Constants& c) {
        return static_cast<C>(c.beta) * (x > C{0} ? x : static_cast<C>(c.alpha) * std::expm1(x));
    }
};
struct LeakyRelu : FloatFunction {
    static Constants constants(const Node& n) { return {float_attribute(n, "alpha", 0.01F)}; }
    template <class C>
    static C f(C x, const Constants& c) {
        return x < C{0} ? static_cast<C>(c.alpha) * x : x;
    }
};
struct ThresholdedRelu : FloatFunction {
    static Constants constants(const Node& n) { return {float_attribute(n, "alpha", 1.0F)}; }
    template <class C>
    static C f(C x, const Constants& c) {
        return x > static_cast<C>(c.alpha) ? x : C{0};
    }
};
struct HardSigmoid : FloatFunction {
    static Constants constants(const Node& n) {
        return {float_attribute(n, "alpha", 0.2F), float_attribute(n, "beta", 0.5F)};
    }
    template <class C>
    static C f(C x, const Constants& c) {
        const C y = static_cast<C>(c.alpha) * x + static_cast<C>(c.beta);
        return y < C{0} ? C{0} : y > C{1} ? C{1} : y;
    }
};
struct Shrink : FloatFunction {
    static Constants constants(const Node& n) {
        return {float_attribute(n, "lambd", 0.5F), float_attribute(n, "bias", 0.0F)};
    }
    template <class C>
    static C f(C x, const Constants& c) {
        const auto limit = static_cast<C>(c.alpha);
        const auto bias = static_cast<C>(c.beta);
        return x < -limit ? x + bias : x > limit ? x - bias : C{0};
    }
};
struct Swish : FloatFunction {
    static Constants constants(const Node& n) { return {float_attribute(n, "alpha", 1.0F)}; }
    template <class C>
    static C f(C x, const Constants& c) {
        return x / (C{1} + std::exp(-static_cast<C>(c.alpha) * x));
    }
};
struct Gelu : FloatFunction {
    static Constants constants(const Node& n) {
        const auto form = text_attribute(n, "approximate", "none");
        if (form != "none" && form != "tanh")
            fail_node(n, fmt::format("approximate must be none or tanh, not {}", in_quotes(form)));
        return {form == "tanh" ? 1.0 : 0.0};
    }
    template <class C>
    static C f(C x, const Constants& c) {
        if (c.alpha == 0.0) return C{0.5} * x * (C{1} + std::erf(x * static_cast<C>(0.70710678118654752440)));
        const C inner = static_cast<C>(0.79788456080286535588) * (x + static_cast<C>(0.044715) * x * x * x);
        return C{0.5} * x * (C{1} + std::tanh(inner));
    }
};

// The common case has a vector form.
void run_gelu(const Operands& o) {
    if (o.in(0).type != DType::f32 || Gelu::constants(o.node).alpha != 0.0) return run_unary<Gelu>(o);
    for_parts(o.exec, o.in(0).count(), kPart, [&](std::size_t first, std::size_t count) {
        ops::gelu(o.in(0).values<float>().subspan(first, count),
                  o.out(0).values<float>().subspan(first, count));
    });
}

void run_not(const Operands& o) {
    apply_unary<std::int64_t, bool>([](std::int64_t x) { return x == 0; }, o.in(0), o.exec, o.out(0));
}

void run_is_nan(const Operands& o) {
    apply_unary<double, bool>([](double x) { return std::isnan(x); }, o.in(0), o.exec, o.out(0));
}

void run_is_inf(const Operands& o) {
    const bool positive = int_attribute(o.node, "detect_positive", 1) != 0;
    const bool negative = int_attribute(o.node, "detect_negative", 1) != 0;
    apply_unary<double, bool>([=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); },
                              o.in(0), o.exec, o.out(0));
}

// Clip, with limits as inputs (operator set 11) or attributes.
void run_clip(const Operands& o) {
    with_wide_type(o.in(0).type, [&](auto zero) {
        using C = decltype(zero);
        C low = std::numeric_limits<C>::lowest();
        C high = std::numeric_limits<C>::max();
        if constexpr (kFloating<C>) {
            low = -std::numeric_limits<C>::infinity();
            high = -low;
            if (has_attribute(o.node, "min")) low = static_cast<C>(float_attribute(o.node, "min", 0));
            if (has_attribute(o.node, "max")) high = static_cast<C>(float_attribute(o.node, "max", 0));
        }
        std::array<C, kBlock> buffer;
        if (o.has(1)) low = *load_block(o.in(1), 0, 1, buffer);
        if (o.has(2)) high = *load_block(o.in(2), 0, 1, buffer);
        apply_unary<C, C>(
            [=](C x) {
                const C y = x < low ? low : x;
                return y > high ? high : y;
            },
            o.in(0), o.exec, o.out(0));
    });
}

void infer_clip(Inference& i) {
    for (const std::size_t k : {1U, 2U}) {
        check_same_type(i, 0, k);
        if (i.has(k) && i.inputs[k].value != nullptr && i.inputs[k].value->count() != 1)
            fail_node(i.node, "the limits must be scalars");
    }
    infer_same(i);
}

void run_cast(const Operands& o) {
    with_wide_type(o.in(0).type, [&](auto zero) {
        using C = decltype(zero);
        apply_unary<C, C>([](C x) { return x; }, o.in(0), o.exec, o.out(0));
    });
}

void infer_cast(Inference& i) {
    i.set(0, dtype_attribute(i.node, "to", DType::f32), i.inputs[0].type->dims);
}

void infer_cast_like(Inference& i) {
    i.set(0, i.type(1), i.inputs[0].type->dims);
}

void run_where(const Operands& o) {
    const auto& yes = o.in(1);
    const auto& no = o.in(2);
    const auto& out = o.out(0);
    const Broadcast runs(out.shape, {&o.in(0), &yes, &no});
    const std::size_t bytes = byte_size(out.type);
    const auto select = [&](auto zero) {
        using T = decltype(zero);
        for_blocks(
            runs, 3, o.exec, [&](std::size_t at, std::size_t count, const std::vector<BroadcastRun>& in) {
                const auto* c = reinterpret_cast<const bool*>(o.in(0).data) + in[0].offset;
                const auto* a = reinterpret_cast<const T*>(yes.data) + in[1].offset;
                const auto* b = reinterpret_cast<const T*>(no.data) + in[2].offset;
                auto* to = reinterpret_cast<T*>(out.data) + at;
                for (std::size_t i = 0; i < count; ++i) {
                    to[i] = c[in[0].repeated ? 0 : i] ? a[in[1].repeated ? 0 : i] : b[in[2].repeated ? 0 : i];
                }
            });
    };
    if (bytes == 8) return select(std::uint64_t{});
    if (bytes == 4) return select(std::uint32_t{});
    if (bytes == 2) return select(std::uint16_t{});
    select(std::uint8_t{});
}

void infer_where(Inference& i) {
    if (i.type(0) != DType::bool_) fail_node(i.node, "the condition must be bool");
    check_same_type(i, 1, 2);
    infer_broadcast(i);
    i.outputs[0].type = i.type(1);
}

template <class F>
constexpr Operator unary(std::string_view name, int since) {
    return {name, since, 1, 1, infer_same, run_unary<F>};
}
template <class F>
constexpr Operator arithmetic(std::string_view name, int since) {
    return {name, since, 2, 2, infer_arithmetic, run_binary<F>};
}
template <class F>
constexpr Operator comparison(std::string_view name, int since) {
    return {name, since, 2, 2, infer_compare, run_compare<F>};
}

}  // namespace

std::span<const Operator> elementwise_operators() {
    static const Operator rows[] = {
        arithmetic<Add>("Add", 7),
        arithmetic<Sub>("Sub", 7),
        arithmetic<Mul>("Mul", 7),
        arithmetic<Div>("Div", 7),
        arithmetic<BitAnd>("BitwiseAnd", 18),
        arithmetic<BitOr>("BitwiseOr", 18),
        arithmetic<BitXor>("BitwiseXor", 18),
        {"Mod", 10, 2, 2, infer_arithmetic, run_mod},
        {"BitShift", 11, 2, 2, infer_arithmetic, run_bit_shift},
        {"Pow", 7, 2, 2, infer_broadcast, run_pow},
        {"PRelu", 7, 2, 2, infer_arithmetic, run_binary<PRelu>},
        {"Max", 8, 1, kAnyNumber, infer_arithmetic, run_variadic<Max>},
        {"Min", 8, 1, kAnyNumber, infer_arithmetic, run_variadic<Min>},
        {"Sum", 8, 1, kAnyNumber, infer_arithmetic, run_variadic<Add>},
        {"Mean", 8, 1, kAnyNumber, infer_arithmetic, run_mean},
        comparison<Equal>("Equal", 7),
        comparison<Less>("Less", 7),
        comparison<Greater>("Greater", 7),
        comparison<LessOrEqual>("LessOrEqual", 12),
        comparison<GreaterOrEqual>("GreaterOrEqual", 12),
        comparison<And>("And", 7),
        comparison<Or>("Or", 7),
        comparison<Xor>("Xor", 7),
        {"Not", 1, 1, 1, infer_bool, run_not},
        {"IsNaN", 9, 1, 1, infer_bool, run_is_nan},
        {"IsInf", 10, 1, 1, infer_bool, run_is_inf},
        unary<Abs>("Abs", 6),
        unary<Acos>("Acos", 7),
        unary<Acosh>("Acosh", 9),
        unary<Asin>("Asin", 7),
        unary<Asinh>("Asinh", 9),
        unary<Atan>("Atan", 7),
        unary<Atanh>("Atanh", 9),
        unary<BitwiseNot>("BitwiseNot", 18),
        unary<Ceil>("Ceil", 6),
        unary<Celu>("Celu", 12),
        unary<Cos>("Cos", 7),
        unary<Cosh>("Cosh", 9),
        unary<Elu>("Elu", 6),
        unary<Erf>("Erf", 9),
        unary<Exp>("Exp", 6),
        unary<Floor>("Floor", 6),
        {"Gelu", 20, 1, 1, infer_same, run_gelu},
        unary<HardSigmoid>("HardSigmoid", 6),
        unary<HardSwish>("HardSwish", 14),
        unary<LeakyRelu>("LeakyRelu", 6),
        unary<Log>("Log", 6),
        unary<Mish>("Mish", 18),
        unary<Neg>("Neg", 6),
        unary<Reciprocal>("Reciprocal", 6),
        unary<Relu>("Relu", 6),
        unary<Round>("Round", 11),
        unary<Selu>("Selu", 6),
        unary<Shrink>("Shrink", 9),
        unary<Sigmoid>("Sigmoid", 6),
        unary<Sign>("Sign", 9),
        unary<Sin>("Sin", 7),
        unary<Sinh>("Sinh", 9),
        unary<Softplus>("Softplus", 1),
        unary<Softsign>("Softsign", 1),
        unary<Sqrt>("Sqrt", 6),
        unary<Swish>("Swish", 24),
        unary<Tan>("Tan", 7),
        unary<Tanh>("Tanh", 6),
        unary<ThresholdedRelu>("ThresholdedRelu", 10),
        {"Clip", 6, 1, 3, infer_clip, run_clip},
        {"Cast", 6, 1, 1, infer_cast, run_cast},
        {"CastLike", 15, 2, 2, infer_cast_like, run_cast},
        {"Where", 9, 3, 3, infer_where, run_where},
    };
    return rows;
}

}  // namespace imka::graph
