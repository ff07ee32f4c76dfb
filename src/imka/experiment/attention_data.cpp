#include "imka/experiment/attention_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/base/sha256.hpp"
#include "imka/chip/build.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/npz.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

constexpr std::int64_t kUsualLength = 4096;
constexpr std::int64_t kUsualHeadDim = 64;
constexpr std::int64_t kMostQueryRows = 4096;  // auto
constexpr std::int64_t kFileSequences = 10;    // auto, as in the published runs

// Purposes of derived seeds; changing one changes generated inputs.
constexpr std::uint32_t kQueryRows = 0x61740000U;
constexpr std::uint32_t kMaps = 0x61740001U;
constexpr std::uint32_t kVocabulary = 0x61740002U;
constexpr std::uint32_t kFirstSequence = 0x61750000U;

std::size_t as_size(std::int64_t value) {
    return static_cast<std::size_t>(value);
}

// Sorted sample of `count` of `length` positions.
std::vector<std::size_t> sampled_positions(std::uint64_t seed, std::size_t length, std::size_t count) {
    std::set<std::size_t> chosen;
    for (std::uint64_t i = 0; chosen.size() < count; ++i)
        chosen.insert(uniform_int(derived_seed(seed, kQueryRows), Stream::subsample, i, length));
    return {chosen.begin(), chosen.end()};
}

void choose_queries(const AttentionSource& source, AttentionData& data) {
    const auto most = source.query_rows.value_or(kMostQueryRows);
    if (most == 0 || as_size(most) >= data.length) {
        data.positions.resize(data.length);
        std::iota(data.positions.begin(), data.positions.end(), std::size_t{0});
        data.all_queries = true;
        return;
    }
    data.positions = sampled_positions(source.seed, data.length, as_size(most));
    data.all_queries = source.causal;
}

// Rows of one of q, k, v: of all positions, or of the compared ones.
struct WantedRows {
    const AttentionData* data = nullptr;
    bool queries = false;
    std::size_t count() const { return queries ? data->queries() : data->length; }
    std::size_t position(std::size_t i) const {
        return queries && !data->all_queries ? data->positions[i] : i;
    }
};

Matrix<float> normal_rows(const WantedRows& rows, std::uint64_t seed) {
    const auto& [data, queries] = rows;
    Matrix<float> x(data->heads * rows.count(), data->d);
    for (std::size_t h = 0; h < data->heads; ++h) {
        for (std::size_t i = 0; i < rows.count(); ++i)
            ops::fill_normal(seed, Stream::synthetic_value, (h * data->length + rows.position(i)) * data->d,
                             x.row(h * rows.count() + i));
    }
    return x;
}

// The model of text. The last two constants give errors in FP32 that are near the published ones of a trained
// model (docs/attention.md).
constexpr std::size_t kEmbedding = 128;   // of embeddings
constexpr std::size_t kWords = 2000;      // in the vocabulary
constexpr double kZipfShift = 2.7;        // Zipf-Mandelbrot: frequency of rank r is 1 / (r + shift)
constexpr double kRepeat = 0.25;          // probability that a token repeats one of the last kRecent
constexpr std::size_t kRecent = 64;       // tokens
constexpr double kPositionScale = 1.0;    // of positions against embeddings
constexpr double kLongestWave = 10000.0;  // of positions, as in Vaswani et al.
constexpr double kQueryKeyShare = 0.5;    // correlation of the maps to queries and keys
constexpr double kScoreDeviation = 0.27;  // of scores of unrelated tokens, about
constexpr double kGainDeviation = 0.25;   // of the logarithm of the size of a token

std::vector<double> zipf_cumulative() {
    std::vector<double> sums(kWords);
    double sum = 0.0;
    for (std::size_t r = 0; r < kWords; ++r) sums[r] = sum += 1.0 / (static_cast<double>(r + 1) + kZipfShift);
    for (auto& s : sums) s /= sum;
    return sums;
}

std::vector<std::uint32_t> text_tokens(std::uint64_t seed, std::size_t length) {
    static const auto sums = zipf_cumulative();
    std::vector<std::uint32_t> tokens(length);
    for (std::size_t i = 0; i < length; ++i) {
        const bool repeats = i > 0 && uniform(seed, Stream::synthetic_class, 2 * i) < kRepeat;
        if (repeats) {
            const auto back = 1 + uniform_int(seed, Stream::synthetic_mix, i, std::min(i, kRecent));
            tokens[i] = tokens[i - back];
        } else {
            const double u = uniform(seed, Stream::synthetic_class, 2 * i + 1);
            tokens[i] = static_cast<std::uint32_t>(std::ranges::lower_bound(sums, u) - sums.begin());
        }
    }
    return tokens;
}

// Embedding and position of a token, normalised to mean 0 and variance 1, times the size of the token. Real
// queries and keys differ in size; the exponent keeps their mean square.
void text_row(std::uint64_t vocabulary, std::uint32_t token, std::size_t position, std::span<float> x) {
    ops::fill_normal(vocabulary, Stream::synthetic_value, std::uint64_t{token} * kEmbedding, x);
    for (std::size_t c = 0; c < kEmbedding; c += 2) {
        const double wave = static_cast<double>(position) *
                            std::pow(kLongestWave, -static_cast<double>(c) / static_cast<double>(kEmbedding));
        x[c] += static_cast<float>(kPositionScale * std::numbers::sqrt2 * std::sin(wave));
        x[c + 1] += static_cast<float>(kPositionScale * std::numbers::sqrt2 * std::cos(wave));
    }
    double mean = 0.0;
    double squares = 0.0;
    for (const float v : x) mean += v / static_cast<double>(kEmbedding);
    for (const float v : x) squares += (v - mean) * (v - mean) / static_cast<double>(kEmbedding);
    const double gain =
        std::exp(kGainDeviation * static_cast<double>(normal(vocabulary, Stream::synthetic_mix, token)) -
                 kGainDeviation * kGainDeviation);
    const double factor = gain / std::sqrt(squares + 1e-5);
    for (auto& v : x) v = static_cast<float>((v - mean) * factor);
}

// The map of one head to q, k or v (d x kEmbedding): entries of variance s² / kEmbedding, so that entries of
// the result have variance s². q and k share a part.
Matrix<float> text_map(std::uint64_t seed, std::size_t head, std::size_t which, std::size_t d) {
    const auto part = [&](std::size_t number, std::span<float> out) {
        ops::fill_normal(seed, Stream::synthetic_value, (head * 4 + number) * d * kEmbedding, out);
    };
    Matrix<float> map(d, kEmbedding);
    part(which, map.values());
    constexpr std::size_t kValues = 2;
    double size = 1.0;
    if (which != kValues) {
        Matrix<float> common(d, kEmbedding);
        part(3, common.values());
        for (std::size_t i = 0; i < map.values().size(); ++i)
            map.values()[i] = static_cast<float>(std::sqrt(kQueryKeyShare) * common.values()[i] +
                                                 std::sqrt(1.0 - kQueryKeyShare) * map.values()[i]);
        size = std::sqrt(kScoreDeviation);
    }
    for (auto& v : map.values()) v *= static_cast<float>(size / std::sqrt(static_cast<double>(kEmbedding)));
    return map;
}

Matrix<float> text_rows(const WantedRows& rows, std::uint64_t seed, std::span<const std::uint32_t> tokens,
                        std::size_t which) {
    const auto* data = rows.data;
    std::vector<Matrix<float>> maps;
    for (std::size_t h = 0; h < data->heads; ++h)
        maps.push_back(text_map(derived_seed(seed, kMaps), h, which, data->d));
    Matrix<float> out(data->heads * rows.count(), data->d);
    constexpr std::size_t kBlock = 256;
    Matrix<float> x(kBlock, kEmbedding);
    for (std::size_t first = 0; first < rows.count(); first += kBlock) {
        const auto n = std::min(kBlock, rows.count() - first);
        for (std::size_t i = 0; i < n; ++i) {
            const auto position = rows.position(first + i);
            text_row(derived_seed(seed, kVocabulary), tokens[position], position, x.row(i));
        }
        for (std::size_t h = 0; h < data->heads; ++h)
            gemm_nt_rows(x.view().slice_rows(0, n), maps[h].view(), {.threads = 1},
                         out.view().slice_rows(h * rows.count() + first, n));
    }
    return out;
}

void generate(const AttentionSource& source, AttentionData& data) {
    for (std::size_t s = 0; s < as_size(source.sequences.value_or(1)); ++s) {
        const auto seed = derived_seed(source.seed, kFirstSequence + static_cast<std::uint32_t>(s));
        const WantedRows queries{&data, true};
        const WantedRows keys{&data, false};
        if (source.dataset == "normal") {
            data.sequences.push_back({.q = normal_rows(queries, derived_seed(seed, 0)),
                                      .k = normal_rows(keys, derived_seed(seed, 1)),
                                      .v = normal_rows(keys, derived_seed(seed, 2))});
        } else {
            const auto tokens = text_tokens(seed, data.length);
            data.sequences.push_back({.q = text_rows(queries, source.seed, tokens, 0),
                                      .k = text_rows(keys, source.seed, tokens, 1),
                                      .v = text_rows(keys, source.seed, tokens, 2)});
        }
    }
}

// Files

NpyArray read_array(const std::string& path) {
    if (!path.ends_with(".npz")) return read_npy_array(path);
    auto arrays = read_npz(path);
    if (arrays.size() != 1)
        fail(ErrorCode::bad_data,
             fmt::format("{}: {} arrays; expected one of shape (N, 3, L, d)", path, arrays.size()));
    return std::move(arrays.begin()->second);
}

double value_at(const NpyArray& array, std::size_t i) {
    if (array.type == "f4") {
        float v = 0.0F;
        std::memcpy(&v, array.bytes.data() + i * sizeof v, sizeof v);
        return static_cast<double>(v);
    }
    double v = 0.0;
    std::memcpy(&v, array.bytes.data() + i * sizeof v, sizeof v);
    return v;
}

// Adds the leading 1 of a file with one sequence.
std::array<std::size_t, 4> shape_of(const NpyArray& array, const std::string& path) {
    auto shape = array.shape;
    if (shape.size() == 3) shape.insert(shape.begin(), 1);
    const bool good = shape.size() == 4 && shape[1] == 3 && std::ranges::count(shape, 0U) == 0;
    if (!good)
        fail(ErrorCode::bad_data, fmt::format("{}: shape ({}); expected (N, 3, L, d): queries, keys and "
                                              "values of N sequences",
                                              path, fmt::join(array.shape, ", ")));
    if (array.type != "f4" && array.type != "f8")
        fail(ErrorCode::bad_data, fmt::format("{}: type {}; expected float32 or float64", path, array.type));
    return {as_size(static_cast<std::int64_t>(shape[0])), 3, static_cast<std::size_t>(shape[2]),
            static_cast<std::size_t>(shape[3])};
}

// One of q, k, v of a sequence.
Matrix<float> file_rows(const NpyArray& array, std::size_t first, const WantedRows& rows,
                        const std::string& path) {
    Matrix<float> x(rows.count(), rows.data->d);
    for (std::size_t i = 0; i < x.rows(); ++i) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            const double v = value_at(array, first + rows.position(i) * x.cols() + c);
            if (!std::isfinite(v))
                fail(ErrorCode::bad_data, fmt::format("{}: value {} is not finite", path,
                                                      first + rows.position(i) * x.cols() + c));
            x(i, c) = static_cast<float>(v);
        }
    }
    return x;
}

void check_against_file(const AttentionSource& source, const std::array<std::size_t, 4>& shape) {
    const auto most = [&](std::string_view name, const std::optional<std::int64_t>& wanted, std::size_t has) {
        if (wanted && as_size(*wanted) > has)
            fail(ErrorCode::bad_config,
                 fmt::format("{}: {} is more than the {} of {}", name, *wanted, has, source.dataset));
    };
    most("length", source.length, shape[2]);
    most("sequences", source.sequences, shape[0]);
    if (source.head_dim && as_size(*source.head_dim) != shape[3])
        fail(ErrorCode::bad_config,
             fmt::format("head_dim: {}, but {} has {}", *source.head_dim, source.dataset, shape[3]));
}

AttentionData read_attention(const AttentionSource& source) {
    const auto array = read_array(source.dataset);
    const auto shape = shape_of(array, source.dataset);
    check_against_file(source, shape);
    AttentionData data{.name = source.dataset, .d = shape[3]};
    data.length = source.length ? as_size(*source.length) : shape[2];
    choose_queries(source, data);
    const auto usual = std::min<std::size_t>(as_size(kFileSequences), shape[0]);
    const auto count = source.sequences ? as_size(*source.sequences) : usual;
    const auto size = shape[2] * shape[3];
    const WantedRows queries{&data, true};
    const WantedRows keys{&data, false};
    for (std::size_t s = 0; s < count; ++s)
        data.sequences.push_back({.q = file_rows(array, 3 * s * size, queries, source.dataset),
                                  .k = file_rows(array, (3 * s + 1) * size, keys, source.dataset),
                                  .v = file_rows(array, (3 * s + 2) * size, keys, source.dataset)});
    Sha256 hash;
    hash.update(fmt::format("attention {} {}", array.type, fmt::join(shape, " ")));
    hash.update(std::string_view(array.bytes.data(), array.bytes.size()));
    data.source_sha256 = hash.hex();
    return data;
}

std::string generator_hash(const std::string& name) {
    return sha256_hex(fmt::format("imka attention {} 1", name));
}

}  // namespace

AttentionInputs AttentionData::inputs(std::size_t sequence) const {
    const auto& s = sequences[sequence];
    return {.q = heads_first(s.q.data(), {heads, queries(), d}),
            .k = heads_first(s.k.data(), {heads, length, d}),
            .v = heads_first(s.v.data(), {heads, length, d})};
}

Fields fields(AttentionSource& s) {
    return {
        field("length", s.length,
              {.help = "Length of a sequence; auto: 4096, or as in the file", .min = 1.0, .max = 1e9}),
        field("head_dim", s.head_dim,
              {.help = "Size d of a head; auto: 64, or as in the file", .min = 1.0, .max = 8192.0}),
        field("heads", s.heads, range::between(1, 1024, "Heads of generated inputs")),
        field("sequences", s.sequences,
              {.help = "Sequences; results are means over them; auto: 1, or the first 10 of a file",
               .min = 1.0,
               .max = 1e6}),
        field("causal", s.causal, {.help = "A query uses only the keys up to its own position"}),
        field("query_rows", s.query_rows,
              {.help = "Queries compared with exact attention, sampled by split_seed; 0 = all; auto: at most "
                       "4096",
               .min = 0.0,
               .max = 1e9}),
    };
}

bool is_attention_generator(const std::string& dataset) {
    return dataset == "normal" || dataset == "text";
}

void validate(const AttentionSource& source) {
    if (!is_attention_generator(source.dataset)) {
        if (!source.dataset.ends_with(".npy") && !source.dataset.ends_with(".npz"))
            fail(ErrorCode::bad_config,
                 fmt::format("dataset: {} is neither normal, text nor a file *.npy or *.npz",
                             in_quotes(source.dataset)));
        if (source.heads != 1)
            fail(ErrorCode::bad_config, "heads: a file has one head per sequence; expected 1");
        return;
    }
    const auto length = static_cast<double>(source.length.value_or(kUsualLength));
    const auto d = static_cast<double>(source.head_dim.value_or(kUsualHeadDim));
    check_fits_memory(3.0 * length * static_cast<double>(source.heads * source.sequences.value_or(1)), d,
                      sizeof(float), "queries, keys and values");
}

AttentionData load_attention(const AttentionSource& source) {
    validate(source);
    if (!is_attention_generator(source.dataset)) return read_attention(source);
    AttentionData data{.name = source.dataset,
                       .source_sha256 = generator_hash(source.dataset),
                       .heads = as_size(source.heads),
                       .length = as_size(source.length.value_or(kUsualLength)),
                       .d = as_size(source.head_dim.value_or(kUsualHeadDim))};
    choose_queries(source, data);
    generate(source, data);
    return data;
}

DatasetFacts attention_facts(const AttentionSource& source) {
    validate(source);
    if (is_attention_generator(source.dataset))
        return {.source_sha256 = generator_hash(source.dataset),
                .features = static_cast<std::uint64_t>(source.head_dim.value_or(kUsualHeadDim)),
                .train_rows = static_cast<std::uint64_t>(source.length.value_or(kUsualLength)),
                .test_rows = static_cast<std::uint64_t>(source.sequences.value_or(1)),
                .uses_split_seed = true};
    const auto data = read_attention(source);
    return {.source_sha256 = data.source_sha256,
            .features = data.d,
            .train_rows = data.length,
            .test_rows = data.sequences.size(),
            .uses_split_seed = data.positions.size() < data.length};
}

}  // namespace imka
