#include "imka/deploy/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr FileKind kRecordingFile{.format = "imka-chip-recording", .schema = "2", .renew = "record it again"};
constexpr std::size_t kKeyNumbers = 5;    // matrix, two halves of the seed, first, rows
constexpr std::size_t kTraceNumbers = 9;  // followed by the products of each core

bool same_bits(MatrixView<const float> a, const Matrix<float>& b) {
    if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
    for (std::size_t r = 0; r < a.rows(); ++r) {
        if (std::memcmp(a.row(r).data(), b.row(r).data(), a.cols() * sizeof(float)) != 0) return false;
    }
    return true;
}

// A call as a row of numbers; counts are far below 2^53, the limit of exact integers in double.
std::vector<double> numbers_of(const CallKey& key, const Trace& t) {
    std::vector<double> out;
    const auto add = [&](std::uint64_t n) { out.push_back(static_cast<double>(n)); };
    for (const std::uint64_t n :
         {std::uint64_t{key.matrix}, key.seed >> 32U, key.seed & 0xFFFFFFFFU, key.first,
          std::uint64_t{key.rows}, t.conversions, t.saturated, t.inputs, t.clipped_inputs, t.bytes_in,
          t.bytes_out, t.digital_operations, t.results, t.limited})
        add(n);
    for (const auto n : t.core_products) add(n);
    return out;
}

std::uint64_t count_of(double value) {
    if (!(value >= 0.0 && value < 0x1p53) || value != static_cast<double>(static_cast<std::uint64_t>(value)))
        fail(ErrorCode::bad_data, fmt::format("tensor 'calls': {} must be an integer", value));
    return static_cast<std::uint64_t>(value);
}

CallKey key_of(std::span<const double> numbers) {
    return {.matrix = static_cast<std::uint32_t>(count_of(numbers[0])),
            .seed = (count_of(numbers[1]) << 32U) | count_of(numbers[2]),
            .first = count_of(numbers[3]),
            .rows = count_of(numbers[4])};
}

Trace trace_of(std::span<const double> numbers) {
    Trace t{.conversions = count_of(numbers[0]),
            .saturated = count_of(numbers[1]),
            .results = count_of(numbers[7]),
            .limited = count_of(numbers[8]),
            .inputs = count_of(numbers[2]),
            .clipped_inputs = count_of(numbers[3]),
            .bytes_in = count_of(numbers[4]),
            .bytes_out = count_of(numbers[5]),
            .digital_operations = count_of(numbers[6])};
    for (const double n : numbers.subspan(kTraceNumbers)) t.core_products.push_back(count_of(n));
    // Drops the zeros that pad all rows of the table to the same length.
    while (!t.core_products.empty() && t.core_products.back() == 0) t.core_products.pop_back();
    return t;
}

// Inputs (x) or outputs (y) of a matrix.
std::string rows_name(std::size_t matrix, char what) {
    return fmt::format("matrix.{}.{}", matrix, what);
}

// Concatenates the rows of all calls of one matrix.
void append_rows(const Matrix<float>& rows, Matrix<float>& all) {
    const std::size_t first = all.rows();
    all.resize_rows(first + rows.rows());
    for (std::size_t r = 0; r < rows.rows(); ++r) std::ranges::copy(rows.row(r), all.row(first + r).begin());
}

TensorFile tensors_of(const Recording& recording) {
    TensorFile file;
    std::size_t width = kKeyNumbers + kTraceNumbers;
    for (const auto& [key, call] : recording.calls)
        width = std::max(width, numbers_of(key, call.trace).size());
    file.f64["calls"] = Matrix<double>(recording.calls.size(), width);
    for (std::size_t m = 0; m < recording.shapes.size(); ++m) {
        file.f32[rows_name(m, 'x')] = Matrix<float>(0, recording.shapes[m].inputs);
        file.f32[rows_name(m, 'y')] = Matrix<float>(0, recording.shapes[m].outputs);
    }
    std::size_t row = 0;
    for (const auto& [key, call] : recording.calls) {
        std::ranges::copy(numbers_of(key, call.trace), file.f64["calls"].row(row++).begin());
        append_rows(call.x, file.f32[rows_name(key.matrix, 'x')]);
        append_rows(call.y, file.f32[rows_name(key.matrix, 'y')]);
    }
    seal(kRecordingFile, file);
    return file;
}

// Reads the rows of one matrix, call by call.
struct Rows {
    Matrix<float> x;
    Matrix<float> y;
    std::size_t used = 0;
};

Recording::Call next_call(std::span<const double> numbers, std::size_t rows, Rows& all) {
    if (rows > all.x.rows() - all.used) fail(ErrorCode::bad_data, "tensor 'calls': more rows than inputs");
    Recording::Call call{.x = copy_of(std::as_const(all.x).view().slice_rows(all.used, rows)),
                         .y = copy_of(std::as_const(all.y).view().slice_rows(all.used, rows)),
                         .trace = trace_of(numbers.subspan(kKeyNumbers))};
    all.used += rows;
    return call;
}

Recording from_tensors(TensorFile tensors) {
    SealedReader file(kRecordingFile, std::move(tensors));
    Recording recording;
    std::vector<Rows> matrices;
    while (file.has_f32(rows_name(matrices.size(), 'x'))) {
        auto x = file.f32(rows_name(matrices.size(), 'x'));
        auto y = file.f32(rows_name(matrices.size(), 'y'));
        if (x.rows() != y.rows())
            fail(ErrorCode::bad_data, "inputs and outputs have different numbers of rows");
        recording.shapes.push_back({x.cols(), y.cols()});
        matrices.push_back({.x = std::move(x), .y = std::move(y)});
    }
    const auto calls = file.f64("calls");
    if (calls.rows() > 0 && calls.cols() < kKeyNumbers + kTraceNumbers)
        fail(ErrorCode::bad_data, fmt::format("tensor 'calls' has {} columns; it must have at least {}",
                                              calls.cols(), kKeyNumbers + kTraceNumbers));
    for (std::size_t r = 0; r < calls.rows(); ++r) {
        const auto key = key_of(calls.row(r));
        if (key.matrix >= matrices.size())
            fail(ErrorCode::bad_data, fmt::format("tensor 'calls': no matrix {}", key.matrix));
        recording.calls.emplace(key, next_call(calls.row(r), key.rows, matrices[key.matrix]));
    }
    file.done();
    return recording;
}

}  // namespace

void save_recording(const std::filesystem::path& path, const Recording& recording) {
    write_safetensors(path, tensors_of(recording));
}

Recording load_recording(const std::filesystem::path& path) {
    return read_sealed(path, from_tensors);
}

RecordingDriver::RecordingDriver(std::unique_ptr<ChipDriver> inner) : inner_(std::move(inner)) {
    for (std::uint32_t m = 0; m < inner_->matrices(); ++m) recording_.shapes.push_back(inner_->shape(m));
}

Trace RecordingDriver::multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                                const Exec& exec, MatrixView<float> y) {
    auto trace = inner_->multiply(matrix, x, ids, exec, y);
    Recording::Call call{.x = copy_of(x), .y = copy_of(y), .trace = trace};
    const std::scoped_lock lock(mutex_);
    recording_.calls.emplace(CallKey{matrix, ids.seed, ids.first, x.rows()}, std::move(call));
    return trace;
}

Trace ReplayingDriver::multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                                const Exec& /*exec*/, MatrixView<float> y) {
    check_call(*this, matrix, x);
    const auto [begin, end] = recording_.calls.equal_range({matrix, ids.seed, ids.first, x.rows()});
    const auto found = std::find_if(begin, end, [&](const auto& c) { return same_bits(x, c.second.x); });
    if (found == end)
        fail(ErrorCode::bad_usage,
             fmt::format("products {} to {} of matrix {} with seed {}: {}", ids.first, ids.first + x.rows(),
                         matrix, ids.seed,
                         begin == end ? "not in the recording" : "recorded with different inputs"));
    for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::copy(found->second.y.row(r), y.row(r).begin());
    return found->second.trace;
}

}  // namespace imka
