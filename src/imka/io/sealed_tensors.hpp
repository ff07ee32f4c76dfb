// safetensors files with a kind, a version and a checksum: models, chips and recordings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/matrix.hpp"
#include "imka/io/safetensors.hpp"

namespace imka {

// Kind of a file, and the version of its layout.
struct FileKind {
    std::string_view format;
    std::string_view schema;
    std::string_view renew;  // what to do about a file of a different version: "program the chip again"
};

// SHA-256 over metadata (except the entry "sha256") and tensors: names, shapes, bytes.
std::string checksum(const TensorFile& file);
// Sets format, schema, the version of imka and the checksum.
void seal(const FileKind& kind, TensorFile& file);

// Valid range of a tensor's values.
struct ValueRange {
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();
    bool above = false;  // excludes `least` itself
};
inline constexpr ValueRange kAnyValue{};
inline constexpr ValueRange kNotNegative{.least = 0.0};
inline constexpr ValueRange kPositive{.least = 0.0, .above = true};

// Takes metadata and tensors one by one; anything missing, unexpected, of the wrong shape or out of range is
// Error{bad_data}.
class SealedReader {
public:
    // Error{bad_data} unless the file is of this kind and its checksum matches.
    SealedReader(const FileKind& kind, TensorFile file);

    std::string text(const std::string& key);
    bool has_f32(const std::string& name) const { return file_.f32.contains(name); }
    bool has_f64(const std::string& name) const { return file_.f64.contains(name); }
    // Any shape, finite values.
    Matrix<float> f32(const std::string& name);
    Matrix<double> f64(const std::string& name);
    Matrix<float> f32(const std::string& name, std::pair<std::size_t, std::size_t> shape,
                      const ValueRange& range);
    Matrix<double> f64(const std::string& name, std::pair<std::size_t, std::size_t> shape,
                       const ValueRange& range);
    std::vector<double> f64(const std::string& name, std::size_t count, const ValueRange& range);
    Matrix<std::uint8_t> u8(const std::string& name, std::pair<std::size_t, std::size_t> shape);
    // All entries whose names begin with the prefix, which is removed: a file within the file.
    TensorFile part(const std::string& prefix);
    // Error{bad_data} if anything is left.
    void done() const;

private:
    TensorFile file_;
};

// Returns read(tensors) for the file at `path`; errors name the file.
template <class Read>
auto read_sealed(const std::filesystem::path& path, const Read& read) {
    auto file = read_safetensors(path);
    try {
        return read(std::move(file));
    } catch (const Error& e) {
        fail(e.code(), path.string() + ": " + e.what());
    }
}

// Adds a file within the file, for SealedReader::part.
void add_part(const std::string& prefix, TensorFile part, TensorFile& file);

// A tensor of one row.
Matrix<double> row_of(const std::vector<double>& values);

}  // namespace imka
