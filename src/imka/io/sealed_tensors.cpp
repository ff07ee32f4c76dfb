#include "imka/io/sealed_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

constexpr std::string_view kChecksum = "sha256";

std::string range_text(const ValueRange& range) {
    std::string text = "finite";
    if (range.least > -std::numeric_limits<double>::infinity())
        text = fmt::format("{} {}", range.above ? ">" : ">=", range.least);
    if (range.most < std::numeric_limits<double>::infinity()) text += fmt::format(" and <= {}", range.most);
    return text;
}

template <class T>
void check_values(const std::string& name, std::span<const T> values, const ValueRange& range) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double v = values[i];
        const bool good =
            std::isfinite(v) && (range.above ? v > range.least : v >= range.least) && v <= range.most;
        if (!good)
            fail(ErrorCode::bad_data,
                 fmt::format("tensor '{}': value {} is {}; it must be {}", name, i, v, range_text(range)));
    }
}

template <class T>
Matrix<T> take(std::map<std::string, Matrix<T>>& tensors, const std::string& name, const ValueRange& range) {
    const auto it = tensors.find(name);
    if (it == tensors.end()) fail(ErrorCode::bad_data, fmt::format("tensor '{}' is missing", name));
    auto matrix = std::move(it->second);
    tensors.erase(it);
    check_values<T>(name, std::as_const(matrix).values(), range);
    return matrix;
}

template <class T>
void check_shape(const std::string& name, const Matrix<T>& m, std::pair<std::size_t, std::size_t> shape) {
    if (m.rows() != shape.first || m.cols() != shape.second)
        fail(ErrorCode::bad_data, fmt::format("tensor '{}' is {} x {}; it must be {} x {}", name, m.rows(),
                                              m.cols(), shape.first, shape.second));
}

void add_text(std::string_view text, Sha256& hash) {
    hash.update(fmt::format("{} ", text.size()));
    hash.update(text);
}

template <class T>
void add_tensors(const std::map<std::string, Matrix<T>>& tensors, Sha256& hash) {
    for (const auto& [name, m] : tensors) {
        add_text(name, hash);
        hash.update(fmt::format("{} x {} x {} ", m.rows(), m.cols(), sizeof(T)));
        hash.update(std::as_bytes(m.values()));
    }
}

}  // namespace

std::string checksum(const TensorFile& file) {
    Sha256 hash;
    for (const auto& [key, value] : file.metadata) {
        if (key == kChecksum) continue;
        add_text(key, hash);
        add_text(value, hash);
    }
    add_tensors(file.f32, hash);
    add_tensors(file.f64, hash);
    add_tensors(file.u8, hash);
    return hash.hex();
}

void seal(const FileKind& kind, TensorFile& file) {
    file.metadata["format"] = kind.format;
    file.metadata["schema"] = kind.schema;
    file.metadata["imka_version"] = build_info().version;
    file.metadata[std::string(kChecksum)] = checksum(file);
}

SealedReader::SealedReader(const FileKind& kind, TensorFile file) : file_(std::move(file)) {
    const auto sum = checksum(file_);
    if (text("format") != kind.format)
        fail(ErrorCode::bad_data, fmt::format("not an {} file of schema {}", kind.format, kind.schema));
    if (const auto schema = text("schema"); schema != kind.schema)
        fail(ErrorCode::bad_data,
             fmt::format("written by a different version: {} of schema {}, expected a file of schema "
                         "{}; {}",
                         kind.format, in_quotes(schema), kind.schema, kind.renew));
    if (text(std::string(kChecksum)) != sum)
        fail(ErrorCode::bad_data, "checksum mismatch: the file is damaged or was edited");
    (void)text("imka_version");
}

std::string SealedReader::text(const std::string& key) {
    const auto it = file_.metadata.find(key);
    if (it == file_.metadata.end()) fail(ErrorCode::bad_data, fmt::format("metadata '{}' is missing", key));
    auto value = std::move(it->second);
    file_.metadata.erase(it);
    return value;
}

Matrix<float> SealedReader::f32(const std::string& name) {
    return take(file_.f32, name, kAnyValue);
}

Matrix<double> SealedReader::f64(const std::string& name) {
    return take(file_.f64, name, kAnyValue);
}

Matrix<float> SealedReader::f32(const std::string& name, std::pair<std::size_t, std::size_t> shape,
                                const ValueRange& range) {
    auto m = take(file_.f32, name, range);
    check_shape(name, m, shape);
    return m;
}

Matrix<double> SealedReader::f64(const std::string& name, std::pair<std::size_t, std::size_t> shape,
                                 const ValueRange& range) {
    auto m = take(file_.f64, name, range);
    check_shape(name, m, shape);
    return m;
}

std::vector<double> SealedReader::f64(const std::string& name, std::size_t count, const ValueRange& range) {
    const auto m = f64(name, std::pair<std::size_t, std::size_t>{1, count}, range);
    return {m.values().begin(), m.values().end()};
}

Matrix<std::uint8_t> SealedReader::u8(const std::string& name, std::pair<std::size_t, std::size_t> shape) {
    auto m = take(file_.u8, name, kAnyValue);
    check_shape(name, m, shape);
    return m;
}

TensorFile SealedReader::part(const std::string& prefix) {
    TensorFile out;
    const auto move = [&](auto& from, auto& to) {
        for (auto it = from.lower_bound(prefix); it != from.end() && it->first.starts_with(prefix);) {
            to[it->first.substr(prefix.size())] = std::move(it->second);
            it = from.erase(it);
        }
    };
    move(file_.metadata, out.metadata);
    move(file_.f32, out.f32);
    move(file_.f64, out.f64);
    move(file_.u8, out.u8);
    return out;
}

void SealedReader::done() const {
    const auto check = [](const auto& map) {
        if (!map.empty()) fail(ErrorCode::bad_data, fmt::format("unexpected entry '{}'", map.begin()->first));
    };
    check(file_.metadata);
    check(file_.f32);
    check(file_.f64);
    check(file_.u8);
}

void add_part(const std::string& prefix, TensorFile part, TensorFile& file) {
    const auto add = [&](auto& from, auto& to) {
        for (auto& [name, value] : from) to[prefix + name] = std::move(value);
    };
    add(part.metadata, file.metadata);
    add(part.f32, file.f32);
    add(part.f64, file.f64);
    add(part.u8, file.u8);
}

Matrix<double> row_of(const std::vector<double>& values) {
    Matrix<double> row(1, values.size());
    std::ranges::copy(values, row.values().begin());
    return row;
}

}  // namespace imka
