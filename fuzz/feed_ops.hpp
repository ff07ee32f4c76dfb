// Differential check of the ops: bytes become arguments with any bit pattern. Every instruction set must meet
// the bounds in the headers, and the bits of a value must not depend on its position. Throws on a violation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/ops/dot/dot.hpp"
#include "imka/ops/epilogue/epilogue.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/normals/normals.hpp"
#include "support/epilogue_reference.hpp"
#include "support/instruction_sets.hpp"

namespace imka::fuzz {

using Values = std::vector<float>;

// One case: the bytes fill the members in this order; the remaining bytes are u. Missing bytes are zeros.
struct OpsCase {
    float scale = 0.0F;
    float shift = 0.0F;
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
    std::uint16_t normals = 0;  // number of normals, modulo 512
    std::uint8_t split = 0;     // where u is split for the second run, modulo its size + 1
    std::uint8_t power = 0;     // modulo 3
    Values u;                   // at most 128
};

inline OpsCase ops_case(std::string_view bytes) {
    const auto take = [&bytes](auto& value) {
        const std::size_t size = std::min(sizeof(value), bytes.size());
        std::memcpy(&value, bytes.data(), size);
        bytes.remove_prefix(size);
    };
    OpsCase c;
    take(c.scale);
    take(c.shift);
    take(c.seed);
    take(c.first);
    take(c.normals);
    take(c.split);
    take(c.power);
    c.normals %= 512;
    c.power %= 3;
    c.u.resize(std::min<std::size_t>(bytes.size() / sizeof(float), 128));
    for (auto& v : c.u) take(v);
    return c;
}

inline bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
}

// Allowed range of a function value before the scale.
struct Bounds {
    double low;
    double high;
};

// Whether `got` is the rounded product of the scale and a number within the bounds (or of NaN).
inline bool is_scaled(float got, float scale, Bounds b) {
    if (std::isnan(scale) || std::isnan(b.low)) return std::isnan(got);
    const bool may_be_nan = (std::isinf(scale) && b.low <= 0.0 && b.high >= 0.0) ||
                            (scale == 0.0F && (std::isinf(b.low) || std::isinf(b.high)));
    if (std::isnan(got)) return may_be_nan;
    // Infinite scale: only the sign can be checked. Zero scale: must be zero.
    if (std::isinf(scale)) return std::isinf(got) && (may_be_nan || (got > 0.0F) == (scale * b.low > 0.0));
    if (scale == 0.0F) return got == 0.0F;
    auto low = static_cast<float>(double{scale} * b.low);
    auto high = static_cast<float>(double{scale} * b.high);
    if (low > high) std::swap(low, high);
    return low <= got && got <= high;
}

// epilogue.hpp: cos and sin within 1.2e-7, and NaN where u is not finite.
inline Bounds near_turn(double exact) {
    return {exact - 1.2e-7, exact + 1.2e-7};
}

// epilogue.hpp: exp within 2 ULP, counted in float steps; values that round to infinity are infinite.
inline Bounds near_exp(float x) {
    if (std::isnan(x)) return {x, x};
    if (std::isinf(x)) return x > 0.0F ? Bounds{HUGE_VAL, HUGE_VAL} : Bounds{0.0, 0.0};
    const double exact = std::exp(double{x});
    const int exponent = std::clamp(std::ilogb(exact), -126, 127);
    const double ulp = std::ldexp(1.0, exponent - 23);
    const auto on_grid = [](double v) { return double{static_cast<float>(v)}; };
    return {on_grid(std::max(0.0, exact - 2.0 * ulp)), on_grid(exact + 2.0 * ulp)};
}

struct Finding {
    std::string_view op;
    std::string_view set;  // instruction set
};

inline void require(bool holds, const Finding& f, float argument, float got, float scale) {
    if (holds) return;
    throw std::runtime_error(fmt::format("{} on {}: u = {:a} ({}) gives {:a} with scale {:a}", f.op, f.set,
                                         argument, argument, got, scale));
}

// Runs op(u part, out parts...) on all of u and on its two parts: the bits of a value must not depend on its
// position. `outputs` is 1 or 2; returns the output of the whole run.
template <class Op>
std::vector<Values> run_twice(const OpsCase& c, std::size_t outputs, const Finding& f, const Op& op) {
    const std::size_t n = c.u.size();
    const std::size_t cut = c.split % (n + 1);
    std::vector<Values> whole(outputs, Values(n));
    op(0, n, whole);
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n}}) {
        std::vector<Values> part(outputs, Values(end - begin));
        op(begin, end, part);
        for (std::size_t k = 0; k < outputs; ++k) {
            for (std::size_t i = begin; i < end; ++i) {
                require(same(part[k][i - begin], whole[k][i]), f, c.u[i], part[k][i - begin], c.scale);
            }
        }
    }
    return whole;
}

inline void check_cos_sin(const OpsCase& c, std::string_view set) {
    const Finding f{"cos_sin", set};
    const auto out = run_twice(c, 2, f, [&](std::size_t begin, std::size_t end, std::vector<Values>& o) {
        ops::cos_sin(std::span(c.u).subspan(begin, end - begin), c.scale, o[0], o[1]);
    });
    for (std::size_t i = 0; i < c.u.size(); ++i) {
        const double x = c.u[i];
        require(is_scaled(out[0][i], c.scale, near_turn(std::cos(x))), f, c.u[i], out[0][i], c.scale);
        require(is_scaled(out[1][i], c.scale, near_turn(std::sin(x))), f, c.u[i], out[1][i], c.scale);
    }
}

inline void check_offset_cos(const OpsCase& c, std::string_view set) {
    const Finding f{"offset_cos", set};
    const Values offset(c.u.rbegin(), c.u.rend());
    const auto out = run_twice(c, 1, f, [&](std::size_t begin, std::size_t end, std::vector<Values>& o) {
        ops::offset_cos(std::span(c.u).subspan(begin, end - begin),
                        std::span(offset).subspan(begin, end - begin), c.scale, o[0]);
    });
    for (std::size_t i = 0; i < c.u.size(); ++i) {
        const float x = c.u[i] + offset[i];
        require(is_scaled(out[0][i], c.scale, near_turn(std::cos(double{x}))), f, x, out[0][i], c.scale);
    }
}

inline void check_step_power(const OpsCase& c, std::string_view set) {
    const Finding f{"step_power", set};
    const auto out = run_twice(c, 1, f, [&](std::size_t begin, std::size_t end, std::vector<Values>& o) {
        ops::step_power(std::span(c.u).subspan(begin, end - begin), c.power, c.scale, o[0]);
    });
    Values expected(c.u.size());
    ops::reference::step_power(c.u, c.power, c.scale, expected);
    for (std::size_t i = 0; i < c.u.size(); ++i) {
        require(same(out[0][i], expected[i]), f, c.u[i], out[0][i], c.scale);
    }
}

inline void check_exp_plus_minus(const OpsCase& c, std::string_view set) {
    const Finding f{"exp_plus_minus", set};
    const auto out = run_twice(c, 2, f, [&](std::size_t begin, std::size_t end, std::vector<Values>& o) {
        ops::exp_plus_minus(std::span(c.u).subspan(begin, end - begin), c.shift, c.scale, o[0], o[1]);
    });
    for (std::size_t i = 0; i < c.u.size(); ++i) {
        const float plus = c.u[i] + c.shift;
        const float minus = c.shift - c.u[i];
        require(is_scaled(out[0][i], c.scale, near_exp(plus)), f, plus, out[0][i], c.scale);
        require(is_scaled(out[1][i], c.scale, near_exp(minus)), f, minus, out[1][i], c.scale);
    }
}

inline void check_fill_normal(const OpsCase& c, std::string_view set) {
    Values got(c.normals);
    Values expected(c.normals);
    const auto stream = static_cast<Stream>(c.power);
    ops::fill_normal(c.seed, stream, c.first, got);
    fill_normal(c.seed, stream, c.first, expected);
    for (std::size_t i = 0; i < got.size(); ++i) {
        require(same(got[i], expected[i]), {"fill_normal", set}, expected[i], got[i], 1.0F);
    }
}

// dot.hpp: |error| <= (size / lanes + 8) 2^-53 sum |z w|, with at least one lane; same bits at any address.
inline void check_dot(const OpsCase& c, std::string_view set) {
    const Finding f{"dot", set};
    std::vector<double> w(c.u.rbegin(), c.u.rend());
    for (auto& v : w) v *= 1.1;  // more bits than a float has
    long double sum = 0.0L;
    long double magnitude = 0.0L;
    for (std::size_t i = 0; i < w.size(); ++i) {
        const long double product = static_cast<long double>(c.u[i]) * w[i];
        sum += product;
        magnitude += std::abs(product);
    }
    const double got = ops::dot(c.u, w);
    Values moved(1 + c.split % 16U);
    const auto shift = static_cast<std::ptrdiff_t>(moved.size());
    moved.insert(moved.end(), c.u.begin(), c.u.end());
    const double again = ops::dot({moved.begin() + shift, moved.end()}, w);
    const auto as_float = static_cast<float>(got);
    require(got == again || (std::isnan(got) && std::isnan(again)), f, 0.0F, as_float, 1.0F);
    if (!std::isfinite(sum)) {
        require(std::isnan(sum) ? std::isnan(got) : got == static_cast<double>(sum), f, 0.0F, as_float, 1.0F);
        return;
    }
    const auto bound = static_cast<long double>(w.size() + 8) * 0x1p-53L * magnitude;
    require(std::abs(got - sum) <= bound, f, 0.0F, as_float, 1.0F);
}

// The order of additions that fwht.hpp guarantees: values 1, 2, 4, ... apart, or in reverse.
inline void plain_fwht(std::span<float> v, bool backwards) {
    const auto level = [&v](std::size_t half) {
        for (std::size_t i = 0; i < v.size(); ++i) {
            if ((i & half) != 0) continue;
            const float a = v[i];
            const float b = v[i + half];
            v[i] = a + b;
            v[i + half] = a - b;
        }
    };
    if (backwards) {
        for (std::size_t half = v.size() / 2; half > 0; half /= 2) level(half);
    } else {
        for (std::size_t half = 1; half < v.size(); half *= 2) level(half);
    }
}

inline void require_same(const Finding& f, std::span<const float> got, std::span<const float> expected) {
    for (std::size_t i = 0; i < got.size(); ++i)
        require(same(got[i], expected[i]), f, expected[i], got[i], 1.0F);
}

// u repeated up to `count` values.
inline Values repeated(const Values& u, std::size_t count) {
    Values v(count);
    for (std::size_t i = 0; i < count && !u.empty(); ++i) v[i] = u[i % u.size()];
    return v;
}

// fwht.hpp and sign_hadamard.hpp guarantee the same bits on every machine. Holds the arguments and the
// results of plain loops, computed once for all instruction sets.
struct TransformCase {
    std::size_t n = 1;
    std::size_t rows = 1;
    Values values;
    Values transformed;
    SignHadamard matrix;
    Values projected;  // the first d values
};

inline SignHadamard sign_hadamard(const OpsCase& c) {
    const std::size_t n = std::size_t{1} << (c.split % 11U);
    const std::size_t m = 1 + c.normals;
    const std::size_t size = padded_outputs(n, m);
    const auto diagonal = [&](int k) {
        Values v(size);
        const auto bits = std::rotl(c.seed, 7 * k);
        for (std::size_t i = 0; i < size; ++i) v[i] = (bits >> (i % 61) & 1U) != 0 ? 0.5F : -1.0F;
        return v;
    };
    return {.d = 1 + c.first % n,
            .n = n,
            .m = m,
            .first = diagonal(1),
            .second = diagonal(2),
            .third = diagonal(3),
            .scale = Values(size, c.scale)};
}

inline Values plain_product(const SignHadamard& matrix, std::span<const float> x) {
    Values out(matrix.first.size());
    for (std::size_t first = 0; first < matrix.m; first += matrix.n) {
        const auto block = std::span(out).subspan(first, matrix.n);
        const auto multiply = [&](const Values& by) {
            for (std::size_t i = 0; i < matrix.n; ++i) block[i] *= by[first + i];
        };
        std::copy(x.begin(), x.end(), block.begin());
        multiply(matrix.first);
        plain_fwht(block, false);
        multiply(matrix.second);
        plain_fwht(block, true);
        multiply(matrix.third);
        plain_fwht(block, false);
        multiply(matrix.scale);
    }
    out.resize(matrix.m);
    return out;
}

inline TransformCase transform_case(const OpsCase& c) {
    TransformCase t{.n = std::size_t{1} << (c.split % 12U), .matrix = sign_hadamard(c)};
    t.rows = t.n < 64 ? 1 + c.normals % 21U : 1;
    t.values = repeated(c.u, std::max(t.rows * t.n, t.matrix.d));
    t.transformed = t.values;
    for (std::size_t r = 0; r < t.rows; ++r)
        plain_fwht(std::span(t.transformed).subspan(r * t.n, t.n), false);
    t.projected = plain_product(t.matrix, std::span(t.values).first(t.matrix.d));
    return t;
}

inline void check_transforms(const TransformCase& t, std::string_view set) {
    auto got = t.values;
    for (std::size_t r = 0; r < t.rows; ++r) fwht(std::span(got).subspan(r * t.n, t.n));
    require_same({"fwht", set}, got, t.transformed);
    got = t.values;
    fwht_rows(MatrixView<float>(got.data(), t.rows, t.n));
    require_same({"fwht_rows", set}, got, t.transformed);
    Values product(t.matrix.m);
    project(t.matrix, MatrixView<const float>(t.values.data(), 1, t.matrix.d),
            MatrixView<float>(product.data(), 1, t.matrix.m));
    require_same({"sign_hadamard", set}, product, t.projected);
}

inline void feed_ops(std::string_view bytes) {
    const auto c = ops_case(bytes);
    const auto transforms = transform_case(c);
    on_each_instruction_set([&](std::string_view set) {
        check_cos_sin(c, set);
        check_offset_cos(c, set);
        check_step_power(c, set);
        check_exp_plus_minus(c, set);
        check_dot(c, set);
        check_fill_normal(c, set);
        check_transforms(transforms, set);
    });
}

}  // namespace imka::fuzz
