// Functions of single elements, and copies with any strides.
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/cuda/status.hpp"
#include "imka/graph/cuda/kernels.hpp"

namespace imka::graph::gpu {
namespace {

constexpr unsigned kThreads = 256;

// Locations of the elements; the last axis is innermost.
struct Places {
    int axes;
    std::uint32_t packs;  // of the output
    std::uint32_t sizes[kMostAxes];
    std::int64_t strides[kMostInputs][kMostAxes];
    const void* in[kMostInputs];
    void* out;
};

template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
    T v[N];
};

// N neighbours along the innermost axis, or one element for all of them.
template <int N, class T>
__device__ inline Pack<T, N> load(const Places& p, int input, std::int64_t offset) {
    const T* at = static_cast<const T*>(p.in[input]) + offset;
    if constexpr (N > 1) {
        if (p.strides[input][p.axes - 1] == 1) return *reinterpret_cast<const Pack<T, N>*>(at);
    }
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.v[i] = *at;
    return pack;
}

// N elements per thread.
template <int N, class F>
__global__ void __launch_bounds__(kThreads) elements(const __grid_constant__ Places p, const F f) {
    const std::uint32_t number = blockIdx.x * kThreads + threadIdx.x;
    if (number >= p.packs) return;
    std::int64_t offsets[F::kInputs] = {};
    std::uint32_t rest = number;
    for (int a = p.axes - 1; a >= 0; --a) {
        const std::uint32_t unit = a == p.axes - 1 ? N : 1;
        const std::uint32_t size = p.sizes[a] / unit;
        const std::uint32_t above = rest / size;
        const std::int64_t at = std::int64_t{rest - above * size} * unit;
#pragma unroll
        for (int k = 0; k < F::kInputs; ++k) offsets[k] += at * p.strides[k][a];
        rest = above;
    }
    Pack<typename F::Out, N> out;
    const auto a = load<N, typename F::A>(p, 0, offsets[0]);
    if constexpr (F::kInputs == 1) {
#pragma unroll
        for (int i = 0; i < N; ++i) out.v[i] = f(a.v[i]);
    } else {
        const auto b = load<N, typename F::B>(p, 1, offsets[1]);
        if constexpr (F::kInputs == 2) {
#pragma unroll
            for (int i = 0; i < N; ++i) out.v[i] = f(a.v[i], b.v[i]);
        } else {
            const auto c = load<N, typename F::B>(p, 2, offsets[2]);
#pragma unroll
            for (int i = 0; i < N; ++i) out.v[i] = f(a.v[i], b.v[i], c.v[i]);
        }
    }
    reinterpret_cast<Pack<typename F::Out, N>*>(p.out)[number] = out;
}

bool is_aligned(const void* p, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

// Whether four neighbours of an input can be read at once, or are one element.
template <class T>
bool takes_packs(const ElementsWork& w, int input) {
    const auto* strides = w.strides[input];
    if (strides[w.axes - 1] != 1) return strides[w.axes - 1] == 0;
    for (int a = 0; a + 1 < w.axes; ++a) {
        if (strides[a] % 4 != 0) return false;
    }
    return is_aligned(w.in[input], 4 * sizeof(T));
}

template <class F>
bool takes_packs(const ElementsWork& w) {
    if (w.sizes[w.axes - 1] % 4 != 0 || !is_aligned(w.out, 4 * sizeof(typename F::Out))) return false;
    if (!takes_packs<typename F::A>(w, 0)) return false;
    for (int k = 1; k < F::kInputs; ++k) {
        if (!takes_packs<typename F::B>(w, k)) return false;
    }
    return true;
}

template <int N, class F>
void start(const ElementsWork& w, const F& f) {
    Places p{.axes = w.axes, .packs = static_cast<std::uint32_t>(w.count / N), .out = w.out};
    for (int a = 0; a < w.axes; ++a) p.sizes[a] = static_cast<std::uint32_t>(w.sizes[a]);
    for (int k = 0; k < F::kInputs; ++k) {
        p.in[k] = w.in[k];
        for (int a = 0; a < w.axes; ++a) p.strides[k][a] = w.strides[k][a];
    }
    const unsigned blocks = (p.packs + kThreads - 1) / kThreads;
    elements<N, F><<<blocks, kThreads>>>(p, f);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for elements");
}

template <class F>
bool run(const ElementsWork& w, const F& f = {}) {
    takes_packs<F>(w) ? start<4>(w, f) : start<1>(w, f);
    return true;
}

template <class To, class From, int Inputs>
struct Signature {
    using Out = To;
    using A = From;
    using B = From;
    static constexpr int kInputs = Inputs;
};

template <class T>
struct Copy : Signature<T, T, 1> {
    __device__ T operator()(T a) const { return a; }
};
template <class To, class From>
struct Cast : Signature<To, From, 1> {
    __device__ To operator()(From a) const { return static_cast<To>(a); }
};
struct LogicalNot : Signature<std::uint8_t, std::uint8_t, 1> {
    __device__ std::uint8_t operator()(std::uint8_t a) const { return a == 0 ? 1 : 0; }
};
struct Where : Signature<std::uint32_t, std::uint32_t, 3> {
    using A = std::uint8_t;
    __device__ std::uint32_t operator()(std::uint8_t c, std::uint32_t a, std::uint32_t b) const {
        return c != 0 ? a : b;
    }
};

// Functions of two numbers, as in op_elementwise.cpp.
template <Function F, class T>
struct Arithmetic : Signature<T, T, 2> {
    __device__ T operator()(T a, T b) const {
        if constexpr (F == Function::add) return a + b;
        if constexpr (F == Function::sub) return a - b;
        if constexpr (F == Function::mul) return a * b;
        if constexpr (F == Function::div) return a / b;
        if constexpr (F == Function::pow) return b == T{2} ? a * a : powf(a, b);
        if constexpr (F == Function::max) return a != a || a > b ? a : b;  // NaN if one is NaN
        if constexpr (F == Function::min) return a != a || a < b ? a : b;
    }
};
template <Function F, class T>
struct Comparison : Signature<std::uint8_t, T, 2> {
    __device__ std::uint8_t operator()(T a, T b) const {
        if constexpr (F == Function::equal) return a == b ? 1 : 0;
        if constexpr (F == Function::less) return a < b ? 1 : 0;
        if constexpr (F == Function::greater) return a > b ? 1 : 0;
        if constexpr (F == Function::less_or_equal) return a <= b ? 1 : 0;
        if constexpr (F == Function::greater_or_equal) return a >= b ? 1 : 0;
    }
};
template <Function F>
struct Unary : Signature<float, float, 1> {
    __device__ float operator()(float x) const {
        if constexpr (F == Function::relu) return x < 0.0F ? 0.0F : x;  // keeps NaN
        if constexpr (F == Function::gelu) return 0.5F * x * (1.0F + erff(x * 0.70710678118654752440F));
        if constexpr (F == Function::gelu_tanh)
            return 0.5F * x * (1.0F + tanhf(0.79788456080286535588F * (x + 0.044715F * x * x * x)));
        if constexpr (F == Function::sigmoid) return 1.0F / (1.0F + expf(-x));
        if constexpr (F == Function::tanh) return tanhf(x);
        if constexpr (F == Function::erf) return erff(x);
        if constexpr (F == Function::exp) return expf(x);
        if constexpr (F == Function::log) return logf(x);
        if constexpr (F == Function::sqrt) return sqrtf(x);
        if constexpr (F == Function::neg) return -x;
        if constexpr (F == Function::abs) return fabsf(x);
        if constexpr (F == Function::reciprocal) return 1.0F / x;
    }
};
struct Clip : Signature<float, float, 1> {
    float low = 0.0F;
    float high = 0.0F;
    __device__ float operator()(float x) const {
        const float y = x < low ? low : x;
        return y > high ? high : y;
    }
};

template <Function F>
bool arithmetic(const ElementsWork& w) {
    if (w.from == DType::f32) return run<Arithmetic<F, float>>(w);
    if constexpr (F != Function::div && F != Function::pow) {
        if (w.from == DType::i64) return run<Arithmetic<F, long long>>(w);
        if (w.from == DType::i32) return run<Arithmetic<F, std::int32_t>>(w);
    }
    return false;
}

template <Function F>
bool comparison(const ElementsWork& w) {
    if (w.from == DType::f32) return run<Comparison<F, float>>(w);
    if (w.from == DType::i64) return run<Comparison<F, long long>>(w);
    if (w.from == DType::i32) return run<Comparison<F, std::int32_t>>(w);
    return false;
}

template <Function F>
bool unary(const ElementsWork& w) {
    return w.from == DType::f32 && run<Unary<F>>(w);
}

bool copy(const ElementsWork& w) {
    switch (byte_size(w.from)) {
        case 1:
            return run<Copy<std::uint8_t>>(w);
        case 4:
            return run<Copy<std::uint32_t>>(w);
        case 8:
            return run<Copy<unsigned long long>>(w);
        default:
            return false;
    }
}

template <class From>
bool cast_from(const ElementsWork& w) {
    if (w.to == DType::f32) return run<Cast<float, From>>(w);
    if (w.to == DType::i32) return run<Cast<std::int32_t, From>>(w);
    if (w.to == DType::i64) return run<Cast<long long, From>>(w);
    return false;
}

// Converts from integers only: floats out of range need more than a plain conversion.
bool cast(const ElementsWork& w) {
    if (w.from == w.to) return copy(w);
    if (w.from == DType::u8 || w.from == DType::bool_) return cast_from<std::uint8_t>(w);
    if (w.from == DType::i32) return cast_from<std::int32_t>(w);
    if (w.from == DType::i64) return cast_from<long long>(w);
    return false;
}

bool clip(const ElementsWork& w) {
    Clip f;
    f.low = w.low;
    f.high = w.high;
    return w.from == DType::f32 && run(w, f);
}

}  // namespace

bool start_elements(const ElementsWork& w) {
    switch (w.function) {
        case Function::copy:
            return copy(w);
        case Function::cast:
            return cast(w);
        case Function::clip:
            return clip(w);
        case Function::where:
            return byte_size(w.to) == 4 && run<Where>(w);
        case Function::logical_not:
            return w.from == DType::bool_ && run<LogicalNot>(w);
        case Function::add:
            return arithmetic<Function::add>(w);
        case Function::sub:
            return arithmetic<Function::sub>(w);
        case Function::mul:
            return arithmetic<Function::mul>(w);
        case Function::div:
            return arithmetic<Function::div>(w);
        case Function::pow:
            return arithmetic<Function::pow>(w);
        case Function::max:
            return arithmetic<Function::max>(w);
        case Function::min:
            return arithmetic<Function::min>(w);
        case Function::equal:
            return comparison<Function::equal>(w);
        case Function::less:
            return comparison<Function::less>(w);
        case Function::greater:
            return comparison<Function::greater>(w);
        case Function::less_or_equal:
            return comparison<Function::less_or_equal>(w);
        case Function::greater_or_equal:
            return comparison<Function::greater_or_equal>(w);
        case Function::relu:
            return unary<Function::relu>(w);
        case Function::gelu:
            return unary<Function::gelu>(w);
        case Function::gelu_tanh:
            return unary<Function::gelu_tanh>(w);
        case Function::sigmoid:
            return unary<Function::sigmoid>(w);
        case Function::tanh:
            return unary<Function::tanh>(w);
        case Function::erf:
            return unary<Function::erf>(w);
        case Function::exp:
            return unary<Function::exp>(w);
        case Function::log:
            return unary<Function::log>(w);
        case Function::sqrt:
            return unary<Function::sqrt>(w);
        case Function::neg:
            return unary<Function::neg>(w);
        case Function::abs:
            return unary<Function::abs>(w);
        case Function::reciprocal:
            return unary<Function::reciprocal>(w);
    }
    return false;
}

}  // namespace imka::graph::gpu
