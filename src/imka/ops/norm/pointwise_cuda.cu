// Kernels of pointwise.hpp. width / 8 threads share a row; a block processes as many rows at a time as fit.
#include <numbers>

#include "imka/ops/norm/rows.cuh"

namespace imka::ops::rows {
namespace {

__device__ inline float logistic(float x) {
    return __fdividef(1.0F, 1.0F + __expf(-x));
}
template <UnitFunction F>
__device__ inline float value_of(float x) {
    if constexpr (F == UnitFunction::relu) return fmaxf(x, 0.0F);
    if constexpr (F == UnitFunction::silu) return x * logistic(x);
    return 0.5F * x * (1.0F + erff(x * (1.0F / std::numbers::sqrt2_v<float>)));
}
template <UnitFunction F>
__device__ inline float slope_of(float x) {
    if constexpr (F == UnitFunction::relu) return x > 0.0F ? 1.0F : 0.0F;
    if constexpr (F == UnitFunction::silu) {
        const float s = logistic(x);
        return s * (1.0F + x * (1.0F - s));
    }
    constexpr float kDensity = static_cast<float>(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return 0.5F * (1.0F + erff(x * (1.0F / std::numbers::sqrt2_v<float>))) +
           x * kDensity * __expf(-0.5F * x * x);
}

// The rows of a thread: first, first + step, ...
struct Walk {
    unsigned row;
    unsigned step;
    int column;
};
__device__ inline Walk walk_of(const Shape& s) {
    const unsigned lanes = static_cast<unsigned>(s.width) / kColumns;
    const unsigned rows = kThreads / lanes;
    const unsigned group = threadIdx.x / lanes;
    // Leftover threads have no row.
    const unsigned first = group < rows ? blockIdx.x * rows + group : s.rows;
    return {first, gridDim.x * rows, static_cast<int>(threadIdx.x % lanes) * kColumns};
}

template <class T, UnitFunction F>
__global__ void __launch_bounds__(kThreads, 4)
    activate(const __grid_constant__ Shape shape, const T* x, const float* bias, T* y) {
    const auto walk = walk_of(shape);
    float b[kColumns];
    load(bias + walk.column, b);
#pragma unroll 2
    for (unsigned row = walk.row; row < shape.rows; row += walk.step) {
        const auto at = element_at(shape, row, walk.column);
        float v[kColumns];
        clear(v);
        if (is_used(shape, row)) {
            load(x + at, v);
#pragma unroll
            for (int i = 0; i < kColumns; ++i) v[i] = value_of<F>(v[i] + b[i]);
        }
        store(v, y + at);
    }
}

// Terms of the sums: gradients of activations, or x itself.
template <class T>
struct SumInputs {
    const T* x;
    const float* bias;
    const T* dy;
    T* dx;
    float* partials;
};
template <class T, UnitFunction F>
__global__ void __launch_bounds__(kThreads, 4)
    differentiate(const __grid_constant__ Shape shape, const __grid_constant__ SumInputs<T> in) {
    const auto walk = walk_of(shape);
    float b[kColumns];
    load(in.bias + walk.column, b);
    float sums[1][kColumns] = {};
#pragma unroll 2
    for (unsigned row = walk.row; row < shape.rows; row += walk.step) {
        const auto at = element_at(shape, row, walk.column);
        float d[kColumns];
        clear(d);
        if (is_used(shape, row)) {
            float v[kColumns];
            load(in.x + at, v);
            load(in.dy + at, d);
#pragma unroll
            for (int i = 0; i < kColumns; ++i) d[i] *= slope_of<F>(v[i] + b[i]);
            add(d, sums[0]);
        }
        store(d, in.dx + at);
    }
    write_partials(sums, shape.width / kColumns, shape.width,
                   in.partials + std::int64_t{blockIdx.x} * shape.width);
}

template <class T>
__global__ void __launch_bounds__(kThreads, 4)
    sum_rows(const __grid_constant__ Shape shape, const T* x, float* partials) {
    const auto walk = walk_of(shape);
    float sums[1][kColumns] = {};
#pragma unroll 4
    for (unsigned row = walk.row; row < shape.rows; row += walk.step) {
        float v[kColumns];
        clear(v);
        if (is_used(shape, row)) load(x + element_at(shape, row, walk.column), v);
        add(v, sums[0]);
    }
    write_partials(sums, shape.width / kColumns, shape.width,
                   partials + std::int64_t{blockIdx.x} * shape.width);
}

__device__ inline unsigned length_of(const Shape& s, unsigned document) {
    if (s.lengths == nullptr) return s.tokens;
    return static_cast<unsigned>(min(max(s.lengths[document], 0), static_cast<int>(s.tokens)));
}

// A block per document.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mean_rows(const __grid_constant__ Shape shape, const T* x, float* means) {
    const unsigned lanes = static_cast<unsigned>(shape.width) / kColumns;
    const unsigned rows = kThreads / lanes;
    const unsigned length = length_of(shape, blockIdx.x);
    const int column = static_cast<int>(threadIdx.x % lanes) * kColumns;
    float sums[1][kColumns] = {};
    if (threadIdx.x < rows * lanes) {
#pragma unroll 4
        for (unsigned t = threadIdx.x / lanes; t < length; t += rows) {
            float v[kColumns];
            load(x + element_at(shape, blockIdx.x * shape.tokens + t, column), v);
            add(v, sums[0]);
        }
    }
    const float factor = length == 0U ? 0.0F : 1.0F / static_cast<float>(length);
#pragma unroll
    for (float& v : sums[0]) v *= factor;
    write_partials(sums, static_cast<int>(lanes), shape.width,
                   means + std::int64_t{blockIdx.x} * shape.width);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_means(const __grid_constant__ Shape shape, const float* dmeans, T* dx) {
    const auto walk = walk_of(shape);
    for (unsigned row = walk.row; row < shape.rows; row += walk.step) {
        const unsigned document = row / shape.tokens;
        float v[kColumns];
        clear(v);
        if (is_used(shape, row)) {
            load(dmeans + std::int64_t{document} * shape.width + walk.column, v);
            const float factor = 1.0F / static_cast<float>(length_of(shape, document));
#pragma unroll
            for (float& e : v) e *= factor;
        }
        store(v, dx + element_at(shape, row, walk.column));
    }
}

Launch launch_of(const Shape& shape, void* stream) {
    return launch_of(shape, static_cast<unsigned>(kThreads * kColumns / shape.width), stream);
}
template <class Run>
void with_type(FusedType type, const Run& run) {
    if (type == FusedType::float32) return run(float{});
    run(Bfloat{});
}
template <class Run>
void with_function(UnitFunction function, const Run& run) {
    if (function == UnitFunction::gelu) return run.template operator()<UnitFunction::gelu>();
    if (function == UnitFunction::silu) return run.template operator()<UnitFunction::silu>();
    run.template operator()<UnitFunction::relu>();
}

}  // namespace

void start(const TokenRows& rows, const ActivationInputs& in, void* stream, void* y) {
    const auto shape = shape_of(rows);
    const auto launch = launch_of(shape, stream);
    with_type(rows.type, [&]<class T>(T) {
        with_function(in.function, [&]<UnitFunction F>() {
            activate<T, F><<<launch.blocks, kThreads, 0, launch.stream>>>(shape, static_cast<const T*>(in.x),
                                                                          in.bias, static_cast<T*>(y));
        });
    });
    cuda::check(cudaGetLastError(), "starting an activation");
}

void start(const TokenRows& rows, const ActivationInputs& in, void* stream, const ActivationGradients& out) {
    const auto shape = shape_of(rows);
    const auto launch = launch_of(shape, stream);
    with_type(rows.type, [&]<class T>(T) {
        with_function(in.function, [&]<UnitFunction F>() {
            differentiate<T, F><<<launch.blocks, kThreads, 0, launch.stream>>>(
                shape, SumInputs<T>{static_cast<const T*>(in.x), in.bias, static_cast<const T*>(out.dy),
                                    static_cast<T*>(out.dx), out.workspace});
        });
    });
    cuda::check(cudaGetLastError(), "starting the backward pass of an activation");
    combine(out.workspace, 1, shape.width, launch, {{out.dbias}});
}

void start_sums(const TokenRows& rows, const void* x, void* stream, const ColumnSums& out) {
    const auto shape = shape_of(rows);
    const auto launch = launch_of(shape, stream);
    with_type(rows.type, [&]<class T>(T) {
        sum_rows<T>
            <<<launch.blocks, kThreads, 0, launch.stream>>>(shape, static_cast<const T*>(x), out.workspace);
    });
    cuda::check(cudaGetLastError(), "starting sums of columns");
    combine(out.workspace, 1, shape.width, launch, {{out.sums}});
}

void start_means(const TokenRows& rows, const void* x, void* stream, float* means) {
    const auto shape = shape_of(rows);
    with_type(rows.type, [&]<class T>(T) {
        mean_rows<T>
            <<<static_cast<unsigned>(rows.documents), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
                shape, static_cast<const T*>(x), means);
    });
    cuda::check(cudaGetLastError(), "starting means of documents");
}

void start_means_backward(const TokenRows& rows, const float* dmeans, void* stream, void* dx) {
    const auto shape = shape_of(rows);
    const auto launch = launch_of(shape, stream);
    with_type(rows.type, [&]<class T>(T) {
        spread_means<T><<<launch.blocks, kThreads, 0, launch.stream>>>(shape, dmeans, static_cast<T*>(dx));
    });
    cuda::check(cudaGetLastError(), "starting gradients of means");
}

}  // namespace imka::ops::rows
