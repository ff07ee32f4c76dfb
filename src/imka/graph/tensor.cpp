#include "imka/graph/tensor.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <iterator>

#include "imka/base/error.hpp"

namespace imka::graph {

float to_float(Half h) {
    const std::uint32_t sign = (h.bits & 0x8000U) << 16U;
    const std::uint32_t exponent = (h.bits >> 10U) & 0x1FU;
    const std::uint32_t fraction = h.bits & 0x3FFU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | fraction << 13U);
    if (exponent == 0) {  // zero or subnormal: fraction x 2^-24
        const float value = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
}

float to_float(BFloat16 b) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(b.bits) << 16U);
}

Half to_half(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const auto with_sign = [sign](std::uint32_t rest) {
        return Half{static_cast<std::uint16_t>(sign | rest)};
    };
    if (magnitude > 0x7F800000U) return with_sign(0x7E00U);   // NaN
    if (magnitude >= 0x477FF000U) return with_sign(0x7C00U);  // rounds to infinity
    if (magnitude < 0x38800000U) {                            // subnormal: a multiple of 2^-24
        const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
        auto whole = static_cast<std::uint32_t>(scaled);
        const float rest = scaled - static_cast<float>(whole);
        if (rest > 0.5F || (rest == 0.5F && (whole & 1U) != 0)) ++whole;
        return with_sign(whole);
    }
    const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13U & 1U);
    return with_sign((rounded - 0x38000000U) >> 13U);
}

BFloat16 to_bfloat16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16U | 0x40U)};
    return {static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U)};
}

std::size_t byte_size(DType type) {
    return visit_dtype(type, [](auto zero) { return sizeof(zero); });
}

std::optional<DType> dtype_of_onnx(std::int64_t number) {
    using enum DType;
    constexpr std::optional<DType> kTypes[] = {std::nullopt, f32, u8,           i8,           u16, i16,
                                               i32,          i64, std::nullopt, bool_,        f16, f64,
                                               u32,          u64, std::nullopt, std::nullopt, bf16};
    return number >= 0 && number < std::ssize(kTypes) ? kTypes[number] : std::nullopt;
}

bool is_float(DType type) {
    return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

std::size_t element_count(const Shape& shape) {
    std::size_t count = 1;
    for (const auto size : shape) {
        if (size < 0) fail(ErrorCode::bad_data, fmt::format("negative size {} in a shape", size));
        // 2^40 elements: beyond any memory, and far below an overflow of the byte count.
        if (size > 0 && count > (std::size_t{1} << 40U) / static_cast<std::size_t>(size))
            fail(ErrorCode::bad_data, fmt::format("a tensor of shape {} is too large", to_text(shape)));
        count *= static_cast<std::size_t>(size);
    }
    return count;
}

std::string to_text(const Shape& shape) {
    return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= shape[i];
    }
    return strides;
}

Tensor copy_of(const TensorView& view) {
    Tensor t(view.type, view.shape);
    if (!t.bytes.empty()) std::memcpy(t.bytes.data(), view.data, t.bytes.size());
    return t;
}

std::vector<std::int64_t> to_ints(const TensorView& tensor) {
    if (is_float(tensor.type))
        fail(ErrorCode::bad_data, fmt::format("expected integers, got {}", to_string(tensor.type)));
    std::vector<std::int64_t> ints(tensor.count());
    visit_dtype(tensor.type, [&](auto zero) {
        const auto values = tensor.values<decltype(zero)>();
        for (std::size_t i = 0; i < ints.size(); ++i) ints[i] = converted<std::int64_t>(values[i]);
    });
    return ints;
}

double to_number(const TensorView& tensor) {
    if (tensor.count() == 0) fail(ErrorCode::bad_data, "expected a number, got an empty tensor");
    return visit_dtype(tensor.type,
                       [&](auto zero) { return converted<double>(tensor.values<decltype(zero)>()[0]); });
}

}  // namespace imka::graph
