// safetensors files that say what they are and carry a checksum: chips and recordings.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/io/safetensors.hpp"

namespace imka {

// What a file holds, and the version of its layout.
struct FileKind {
    std::string_view format;
    std::string_view schema;
};

// SHA-256 over metadata (but for the entry "sha256") and tensors: names, shapes, bytes.
std::string checksum(const TensorFile& file);
// Sets format, schema, the version of imka and the checksum.
void seal(const FileKind& kind, TensorFile& file);

// What the values of a tensor may be.
struct ValueRange {
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();
    bool above = false;  // the least itself is excluded
};
inline constexpr ValueRange kAnyValue{};
inline constexpr ValueRange kNotNegative{.least = 0.0};
inline constexpr ValueRange kPositive{.least = 0.0, .above = true};

// Takes metadata and tensors one by one; anything missing, left over, of another shape or out of range is
// Error{bad_data}.
class SealedReader {
public:
    // Error{bad_data} unless the file is of this kind and has the checksum it says.
    SealedReader(const FileKind& kind, TensorFile file);

    std::string text(const std::string& key);
    bool has_f32(const std::string& name) const { return file_.f32.contains(name); }
    bool has_f64(const std::string& name) const { return file_.f64.contains(name); }
    // Of any shape, with finite values.
    Matrix<float> f32(const std::string& name);
    Matrix<double> f64(const std::string& name);
    Matrix<float> f32(const std::string& name, std::pair<std::size_t, std::size_t> shape,
                      const ValueRange& range);
    std::vector<double> f64(const std::string& name, std::size_t count, const ValueRange& range);
    // Nothing may be left.
    void done() const;

private:
    TensorFile file_;
};

}  // namespace imka
