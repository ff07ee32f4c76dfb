// Element types, shapes and tensors of a graph: contiguous, row-major, any rank.
#pragma once

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka::graph {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool_ };
}  // namespace imka::graph

template <>
struct imka::EnumNames<imka::graph::DType> {
    static constexpr std::string_view what = "element type";
    static constexpr std::string_view values[] = {"f32", "f64", "f16", "bf16", "i8",  "i16", "i32",
                                                  "i64", "u8",  "u16", "u32",  "u64", "bool"};
};

namespace imka::graph {

// 16-bit floats are stored and converted; arithmetic on them runs in float.
struct Half {
    std::uint16_t bits = 0;
};
struct BFloat16 {
    std::uint16_t bits = 0;
};
float to_float(Half h);
float to_float(BFloat16 b);
Half to_half(float x);          // rounds to nearest, ties to even
BFloat16 to_bfloat16(float x);  // rounds to nearest, ties to even

// Calls f(T{}) with the C++ type of the elements.
template <class F>
decltype(auto) visit_dtype(DType type, F&& f) {
    switch (type) {
        case DType::f32:
            return f(float{});
        case DType::f64:
            return f(double{});
        case DType::f16:
            return f(Half{});
        case DType::bf16:
            return f(BFloat16{});
        case DType::i8:
            return f(std::int8_t{});
        case DType::i16:
            return f(std::int16_t{});
        case DType::i32:
            return f(std::int32_t{});
        case DType::i64:
            return f(std::int64_t{});
        case DType::u8:
            return f(std::uint8_t{});
        case DType::u16:
            return f(std::uint16_t{});
        case DType::u32:
            return f(std::uint32_t{});
        case DType::u64:
            return f(std::uint64_t{});
        case DType::bool_:
            break;
    }
    return f(bool{});
}

template <class T>
DType dtype_of() {
    for (std::size_t t = 0; t < std::size(EnumNames<DType>::values); ++t) {
        const auto type = static_cast<DType>(t);
        if (visit_dtype(type, [](auto zero) { return std::is_same_v<decltype(zero), T>; })) return type;
    }
    return DType::f32;
}

std::size_t byte_size(DType type);
// The type with this number in ONNX files; nullopt if it is not supported.
std::optional<DType> dtype_of_onnx(std::int64_t number);
bool is_float(DType type);

using Shape = std::vector<std::int64_t>;

// Number of elements; 1 for a scalar. Error{bad_data} if a size is negative or the product overflows.
std::size_t element_count(const Shape& shape);
std::string to_text(const Shape& shape);  // "2x3x4", "scalar"
// Elements between neighbours along each axis.
std::vector<std::int64_t> strides_of(const Shape& shape);

// A tensor in memory that the view does not own.
template <class Byte>
struct BasicTensorView {
    DType type = DType::f32;
    Shape shape;
    Byte* data = nullptr;

    std::size_t count() const { return element_count(shape); }
    std::size_t bytes() const { return count() * byte_size(type); }
    template <class T>
    auto values() const {
        assert(dtype_of<T>() == type);
        using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
        return std::span<Element>(reinterpret_cast<Element*>(data), count());
    }
};
using TensorView = BasicTensorView<const std::byte>;
using MutableTensorView = BasicTensorView<std::byte>;

struct Tensor {
    DType type = DType::f32;
    Shape shape = {0};
    std::vector<std::byte, AlignedAllocator<std::byte>> bytes;

    Tensor() = default;
    // Zeros.
    Tensor(DType type_, Shape shape_)
        : type(type_), shape(std::move(shape_)), bytes(element_count(shape) * byte_size(type)) {}

    TensorView view() const { return {type, shape, bytes.data()}; }
    MutableTensorView view() { return {type, shape, bytes.data()}; }
    template <class T>
    std::span<const T> values() const {
        return view().template values<T>();
    }
    template <class T>
    std::span<T> values() {
        return view().template values<T>();
    }
    bool operator==(const Tensor&) const = default;
};

Tensor copy_of(const TensorView& view);

template <class T>
Tensor make_tensor(Shape shape, std::span<const std::type_identity_t<T>> values) {
    Tensor t(dtype_of<T>(), std::move(shape));
    assert(t.values<T>().size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) t.values<T>()[i] = values[i];
    return t;
}

// The type in which arithmetic on T runs; small types are widened, so that operators exist for four types.
template <class T>
using Wide = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>,
                       float,
                       std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>>>;

template <class T>
Wide<T> widened(T value) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        return to_float(value);
    } else {
        return static_cast<Wide<T>>(value);
    }
}

// Integers wrap; floats become integers as in C, with NaN and values out of range at the nearest limit or 0.
template <class To, class From>
To converted(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
        return converted<To>(to_float(value));
    } else if constexpr (std::is_same_v<To, Half>) {
        return to_half(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, BFloat16>) {
        return to_bfloat16(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, bool>) {
        return value != From{};
    } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
        const auto wide = static_cast<double>(value);
        if (!(wide > -9.3e18))
            return static_cast<To>(wide == wide ? std::numeric_limits<std::int64_t>::min() : 0);
        if (wide >= 1.8446744073709552e19) return static_cast<To>(std::numeric_limits<std::uint64_t>::max());
        return wide >= 0
                   ? static_cast<To>(static_cast<std::uint64_t>(wide))
                   : static_cast<To>(wide < -9.2233720368547758e18 ? std::numeric_limits<std::int64_t>::min()
                                                                   : static_cast<std::int64_t>(wide));
    } else {
        return static_cast<To>(value);
    }
}

template <class C>
bool is_nan(C x) {
    if constexpr (std::is_floating_point_v<C>) return std::isnan(x);
    return false;
}

// Arithmetic in which integers wrap around.
template <class C>
C add_wrapped(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
        return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
        return a + b;
    }
}
template <class C>
C sub_wrapped(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
        return static_cast<C>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
    } else {
        return a - b;
    }
}
template <class C>
C mul_wrapped(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
        return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
        return a * b;
    }
}

// The elements as int64 (sizes, axes, indices). Error{bad_data} if they are not integers.
std::vector<std::int64_t> to_ints(const TensorView& tensor);
// The first element as a number.
double to_number(const TensorView& tensor);

}  // namespace imka::graph
