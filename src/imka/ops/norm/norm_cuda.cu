// Kernels of norm.hpp. `Lanes` threads share a row; a block processes 256 / Lanes rows at a time. The next
// rows are loaded while the current ones are used.
//
// Backward, with h = (s - mean) r and g = weight dy: ds = r (g - mean(g) - h mean(g h)).
#include "imka/ops/norm/rows.cuh"

namespace imka::ops::rows {
namespace {

// Blocks per multiprocessor; the backward pass needs registers for its sums of columns.
constexpr int kForwardBlocks = 4;
template <class T, class Source>
constexpr int kBackwardBlocks = sizeof(T) == 2 && Source::kKinds == 3 ? 3 : 2;

// Vectors of parameters in shared memory: in registers they would leave no room for the next rows.
// 0, 1: weight and bias of the norm; then those of the source.
constexpr int kOwnVector = 2;
struct Vectors {
    const float (*shared)[kMostNormWidth];
    int column;
    __device__ void read(int i, float (&to)[kColumns]) const { load(shared[i] + column, to); }
};

// x + drop(f + bias)
template <class T>
struct Residual {
    static constexpr int kKinds = 3;  // of sums: weight and bias of the norm, bias of f
    static constexpr bool kDropsResult = false;
    struct Row {
        Raw<T, kColumns> x;
        Raw<T, kColumns> f;
    };
    static constexpr int kVectors = 1;
    const T* x;
    const T* f;
    const float* bias;
    Drop drop;
    NormWeights norm;

    __device__ const float* vector(int) const { return bias; }
    __device__ void load_row(const Shape&, unsigned, int, std::int64_t at, Row& row) const {
        row.x.load_from(x + at);
        if (f != nullptr) row.f.load_from(f + at);
    }
    __device__ void sum(const Row& row, const Vectors& vectors, unsigned kept, float (&s)[kColumns]) const {
        row.x.read(s);
        if (f == nullptr) return;
        float v[kColumns];
        float b[kColumns];
        row.f.read(v);
        vectors.read(kOwnVector, b);
        add(b, v);
        drop.apply(kept, v);
        add(v, s);
    }
};
template <class T>
Residual<T> source_of(const ResidualInputs& in) {
    auto drop = drop_of(in.dropout);
    if (in.f == nullptr) drop.least = 0;
    return {static_cast<const T*>(in.x), static_cast<const T*>(in.f), in.bias, drop, in.norm};
}

// scale (value weight + bias) + position
struct Pixels {
    static constexpr int kKinds = 4;  // weight and bias of the norm, weight and bias of the pixels
    static constexpr bool kDropsResult = true;
    struct Row {
        float value;
        Raw<float, kColumns> position;
    };
    static constexpr int kVectors = 2;
    EmbeddingInputs in;
    Drop drop;
    NormWeights norm;

    __device__ const float* vector(int i) const { return i == 0 ? in.pixel_weight : in.pixel_bias; }
    __device__ void load_row(const Shape& s, unsigned number, int column, std::int64_t, Row& row) const {
        row.value = in.pixel_factor * static_cast<float>(in.tokens[number]) + in.pixel_shift;
        row.position.load_from(in.positions + std::int64_t{number % s.tokens} * s.width + column);
    }
    __device__ void sum(const Row& row, const Vectors& vectors, unsigned, float (&s)[kColumns]) const {
        row.position.read(s);
        float w[kColumns];
        float b[kColumns];
        vectors.read(kOwnVector, w);
        vectors.read(kOwnVector + 1, b);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) s[i] += in.scale * (row.value * w[i] + b[i]);
    }
};

// scale row + position
struct Table {
    static constexpr int kKinds = 2;
    static constexpr bool kDropsResult = true;
    struct Row {
        Raw<float, kColumns> entry;
        Raw<float, kColumns> position;
    };
    static constexpr int kVectors = 0;
    EmbeddingInputs in;
    Drop drop;
    NormWeights norm;

    __device__ const float* vector(int) const { return nullptr; }
    __device__ void load_row(const Shape& s, unsigned number, int column, std::int64_t, Row& row) const {
        row.entry.load_from(in.table + (std::int64_t{in.tokens[number]} + 1) * s.width + column);
        row.position.load_from(in.positions + std::int64_t{number % s.tokens} * s.width + column);
    }
    __device__ void sum(const Row& row, const Vectors&, unsigned, float (&s)[kColumns]) const {
        row.position.read(s);
        float entry[kColumns];
        row.entry.read(entry);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) s[i] += in.scale * entry[i];
    }
};

template <class Source>
__device__ inline void fill_vectors(const Shape& shape, const Source& source,
                                    float (&shared)[kOwnVector + Source::kVectors][kMostNormWidth]) {
    const int c = static_cast<int>(threadIdx.x);
    for (int i = 0; i < kOwnVector + Source::kVectors; ++i) {
        const float* const from = i == 0   ? source.norm.weight
                                  : i == 1 ? source.norm.bias
                                           : source.vector(i - kOwnVector);
        shared[i][c] = from != nullptr && c < shape.width ? from[c] : 0.0F;
    }
    __syncthreads();
}

// The row of a thread.
struct Place {
    unsigned row;
    bool used;
};
template <int Lanes>
__device__ inline Place place_of(const Shape& s, unsigned first) {
    const unsigned row = first + threadIdx.x / static_cast<unsigned>(Lanes);
    const bool inside = static_cast<int>(threadIdx.x) % Lanes * kColumns < s.width;
    return {row, inside && is_used(s, row)};
}

template <int Lanes>
__device__ inline float2 moments_of(const float (&s)[kColumns], bool inside, const Shape& shape,
                                    float epsilon) {
    const float inverse_width = 1.0F / static_cast<float>(shape.width);
    float sum = 0.0F;
#pragma unroll
    for (const float v : s) sum += v;
    const float mean = inverse_width * lane_sum<Lanes>(sum);
    float squares = 0.0F;
#pragma unroll
    for (const float v : s) squares += (v - mean) * (v - mean);
    const float variance = inverse_width * lane_sum<Lanes>(inside ? squares : 0.0F);
    return make_float2(mean, rsqrtf(variance + epsilon));
}

template <class T>
struct ForwardTargets {
    float2* moments;
    T* sum;
    T* y;
};

template <class T, int Lanes, class Source>
__global__ void __launch_bounds__(kThreads, kForwardBlocks)
    forward(const __grid_constant__ Shape shape, const __grid_constant__ Source source,
            const __grid_constant__ ForwardTargets<T> out) {
    constexpr unsigned kRows = kThreads / Lanes;
    const int column = static_cast<int>(threadIdx.x) % Lanes * kColumns;
    const bool inside = column < shape.width;
    __shared__ float shared[kOwnVector + Source::kVectors][kMostNormWidth];
    fill_vectors(shape, source, shared);
    const Vectors vectors{shared, column};
    const std::uint64_t seed = source.drop.read_seed();
    typename Source::Row next = {};
    unsigned first = blockIdx.x * kRows;
    Place place = place_of<Lanes>(shape, first);
    if (place.used) source.load_row(shape, place.row, column, element_at(shape, place.row, column), next);
    while (first < shape.rows) {
        const auto current = next;
        const Place here = place;
        const auto at = element_at(shape, here.row, column);
        first += gridDim.x * kRows;
        place = place_of<Lanes>(shape, first);
        if (place.used) source.load_row(shape, place.row, column, element_at(shape, place.row, column), next);
        const unsigned kept = source.drop.kept(seed, at);
        float s[kColumns];
        clear(s);
        if (here.used) source.sum(current, vectors, kept, s);
        const float2 m = moments_of<Lanes>(s, inside, shape, source.norm.epsilon);
        if (here.row >= shape.rows || !inside) continue;
        float y[kColumns];
        clear(y);
        if (here.used) {
            float weight[kColumns];
            vectors.read(0, weight);
            vectors.read(1, y);
#pragma unroll
            for (int i = 0; i < kColumns; ++i) y[i] += (s[i] - m.x) * m.y * weight[i];
            if constexpr (Source::kDropsResult) source.drop.apply(kept, y);
        }
        store(y, out.y + at);
        if (out.sum != nullptr) store(s, out.sum + at);
        if (column == 0) out.moments[here.row] = m;
    }
}

template <class T>
struct BackwardTargets {
    const T* dy;
    const T* dsum;
    const float2* moments;
    float* partials;
    T* dx;
    T* df;
};

// Gradient of the sum, in place of dy; sums += the gradients of weight and bias of the norm.
template <int Lanes, int Kinds>
__device__ inline void through_norm(const float (&s)[kColumns], const Vectors& vectors, float2 m,
                                    float inverse_width, float (&dy)[kColumns],
                                    float (&sums)[Kinds][kColumns]) {
    float h[kColumns];
    float weight[kColumns];
    vectors.read(0, weight);
    float total = 0.0F;
    float product = 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
        h[i] = (s[i] - m.x) * m.y;
        sums[0][i] += dy[i] * h[i];
        sums[1][i] += dy[i];
        dy[i] *= weight[i];
        total += dy[i];
        product += dy[i] * h[i];
    }
    total = inverse_width * lane_sum<Lanes>(total);
    product = inverse_width * lane_sum<Lanes>(product);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) dy[i] = m.y * (dy[i] - total - h[i] * product);
}

// Passes on the gradient ds of the sum.
template <class T>
__device__ inline void finish(const Residual<T>& source, const typename Residual<T>::Row&, unsigned kept,
                              float (&ds)[kColumns], float (&sums)[3][kColumns], T* df) {
    if (source.f == nullptr) return;
    source.drop.apply(kept, ds);
    add(ds, sums[2]);
    if (df != nullptr) store(ds, df);
}
template <class T>
__device__ inline void finish(const Pixels& source, const Pixels::Row& row, unsigned, float (&ds)[kColumns],
                              float (&sums)[4][kColumns], T*) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
        sums[2][i] += source.in.scale * row.value * ds[i];
        sums[3][i] += source.in.scale * ds[i];
    }
}
template <class T>
__device__ inline void finish(const Table& source, const Table::Row&, unsigned, float (&ds)[kColumns],
                              float (&)[2][kColumns], T* df) {
#pragma unroll
    for (float& v : ds) v *= source.in.scale;
    store(ds, df);
}

template <class T, class Source>
struct BackwardRow {
    typename Source::Row row = {};
    Raw<T, kColumns> dy;
    float2 moments = {};

    __device__ void load(const Shape& shape, const Source& source, const BackwardTargets<T>& out,
                         unsigned number, int column) {
        const auto at = element_at(shape, number, column);
        source.load_row(shape, number, column, at, row);
        dy.load_from(out.dy + at);
        moments = out.moments[number];
    }
};

template <class T, int Lanes, class Source>
__global__ void __launch_bounds__(kThreads, (kBackwardBlocks<T, Source>))
    backward(const __grid_constant__ Shape shape, const __grid_constant__ Source source,
             const __grid_constant__ BackwardTargets<T> out) {
    constexpr unsigned kRows = kThreads / Lanes;
    const int column = static_cast<int>(threadIdx.x) % Lanes * kColumns;
    const bool inside = column < shape.width;
    __shared__ float shared[kOwnVector + Source::kVectors][kMostNormWidth];
    fill_vectors(shape, source, shared);
    const Vectors vectors{shared, column};
    const float inverse_width = 1.0F / static_cast<float>(shape.width);
    const std::uint64_t seed = source.drop.read_seed();
    float sums[Source::kKinds][kColumns] = {};
    BackwardRow<T, Source> next;
    unsigned first = blockIdx.x * kRows;
    Place place = place_of<Lanes>(shape, first);
    if (place.used) next.load(shape, source, out, place.row, column);
    while (first < shape.rows) {
        const auto current = next;
        const Place here = place;
        const auto at = element_at(shape, here.row, column);
        first += gridDim.x * kRows;
        place = place_of<Lanes>(shape, first);
        if (place.used) next.load(shape, source, out, place.row, column);
        const unsigned kept = source.drop.kept(seed, at);
        float s[kColumns];
        float g[kColumns];
        clear(s);
        clear(g);
        float2 m = {};
        if (here.used) {
            source.sum(current.row, vectors, kept, s);
            current.dy.read(g);
            if constexpr (Source::kDropsResult) source.drop.apply(kept, g);
            m = current.moments;
        }
        through_norm<Lanes>(s, vectors, m, inverse_width, g, sums);
        if (here.row >= shape.rows || !inside) continue;
        if (!here.used) {
            if (out.dx != nullptr) store(g, out.dx + at);
            if (out.df != nullptr) store(g, out.df + at);
            continue;
        }
        if (out.dsum != nullptr) {
            load(out.dsum + at, s);
            add(s, g);
        }
        if (out.dx != nullptr) store(g, out.dx + at);
        finish(source, current.row, kept, g, sums, out.df == nullptr ? nullptr : out.df + at);
    }
    write_partials(sums, Lanes, shape.width,
                   out.partials + std::int64_t{blockIdx.x} * Source::kKinds * shape.width);
}

template <class Run>
void with_lanes(const Shape& s, const Run& run) {
    if (s.width <= 64) return run.template operator()<8>();
    if (s.width <= 128) return run.template operator()<16>();
    run.template operator()<32>();
}

template <class T, class Source>
void start_forward(const Shape& shape, const Source& source, void* stream, const ForwardTargets<T>& out) {
    with_lanes(shape, [&]<int Lanes>() {
        const auto launch = launch_of(shape, kThreads / Lanes, stream);
        forward<T, Lanes, Source><<<launch.blocks, kThreads, 0, launch.stream>>>(shape, source, out);
    });
    cuda::check(cudaGetLastError(), "starting a norm");
}

template <class T, class Source>
void start_backward(const Shape& shape, const Source& source, void* stream, const BackwardTargets<T>& out,
                    const SumTargets& sums) {
    with_lanes(shape, [&]<int Lanes>() {
        const auto launch = launch_of(shape, kThreads / Lanes, stream);
        backward<T, Lanes, Source><<<launch.blocks, kThreads, 0, launch.stream>>>(shape, source, out);
        cuda::check(cudaGetLastError(), "starting the backward pass of a norm");
        combine(out.partials, Source::kKinds, shape.width, launch, sums);
    });
}

template <class Run>
void with_type(FusedType type, const Run& run) {
    if (type == FusedType::float32) return run(float{});
    run(Bfloat{});
}

float2* pairs(float* moments) {
    return reinterpret_cast<float2*>(moments);
}
const float2* pairs(const float* moments) {
    return reinterpret_cast<const float2*>(moments);
}

}  // namespace

void start(const TokenRows& rows, const ResidualInputs& in, void* stream, const ResidualOutputs& out) {
    with_type(rows.type, [&]<class T>(T) {
        start_forward<T>(shape_of(rows), source_of<T>(in), stream,
                         {pairs(out.moments), static_cast<T*>(out.sum), static_cast<T*>(out.y)});
    });
}

void start(const TokenRows& rows, const ResidualInputs& in, void* stream, const ResidualGradients& out) {
    with_type(rows.type, [&]<class T>(T) {
        start_backward<T>(shape_of(rows), source_of<T>(in), stream,
                          {static_cast<const T*>(out.dy), static_cast<const T*>(out.dsum), pairs(out.moments),
                           out.workspace, static_cast<T*>(out.dx), static_cast<T*>(out.df)},
                          {{out.norm.weight, out.norm.bias, out.dbias}});
    });
}

void start(const TokenRows& rows, const EmbeddingInputs& in, void* stream, const EmbeddingOutputs& out) {
    with_type(rows.type, [&]<class T>(T) {
        const ForwardTargets<T> to{pairs(out.moments), nullptr, static_cast<T*>(out.y)};
        const auto shape = shape_of(rows);
        const auto drop = drop_of(in.dropout);
        if (in.table != nullptr) return start_forward<T>(shape, Table{in, drop, in.norm}, stream, to);
        start_forward<T>(shape, Pixels{in, drop, in.norm}, stream, to);
    });
}

void start(const TokenRows& rows, const EmbeddingInputs& in, void* stream, const EmbeddingGradients& out) {
    with_type(rows.type, [&]<class T>(T) {
        const BackwardTargets<T> to{
            static_cast<const T*>(out.dy), nullptr, pairs(out.moments), out.workspace, nullptr,
            static_cast<T*>(out.drows)};
        const auto shape = shape_of(rows);
        const auto drop = drop_of(in.dropout);
        if (in.table != nullptr) {
            return start_backward<T>(shape, Table{in, drop, in.norm}, stream, to,
                                     {{out.norm.weight, out.norm.bias}});
        }
        start_backward<T>(shape, Pixels{in, drop, in.norm}, stream, to,
                          {{out.norm.weight, out.norm.bias, out.dpixel_weight, out.dpixel_bias}});
    });
}

}  // namespace imka::ops::rows
