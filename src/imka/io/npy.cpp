#include "imka/io/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/io/disk_space.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

static_assert(std::endian::native == std::endian::little, "NPY and float32 bytes are written unchanged");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxNpyHeader = std::size_t{1} << 20U;
constexpr std::size_t kMaxDimensions = 64;
constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 31U;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
// Header length of files we write: fixed, so that the row count can be filled in last.
constexpr std::size_t kWrittenHeader = 128;

// Appends the values in `bytes` to `out`, rounded to float32. Doubles that are too large become infinite,
// which NpyRows rejects.
template <class T>
void convert(std::span<const char> bytes, std::vector<float>& out) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
        T value{};
        std::memcpy(&value, bytes.data() + at, sizeof(T));
        out.push_back(static_cast<float>(value));
    }
}

void convert_bool(std::span<const char> bytes, std::vector<float>& out) {
    for (const char byte : bytes) out.push_back(byte != 0 ? 1.0F : 0.0F);
}

struct ValueType {
    std::string_view name;  // without the byte order
    std::size_t bytes;
    NpyHeader::Convert convert;
};

constexpr auto kTypes = std::to_array<ValueType>({
    {"f4", 4, convert<float>},
    {"f8", 8, convert<double>},
    {"i1", 1, convert<std::int8_t>},
    {"i2", 2, convert<std::int16_t>},
    {"i4", 4, convert<std::int32_t>},
    {"i8", 8, convert<std::int64_t>},
    {"u1", 1, convert<std::uint8_t>},
    {"u2", 2, convert<std::uint16_t>},
    {"u4", 4, convert<std::uint32_t>},
    {"u8", 8, convert<std::uint64_t>},
    {"b1", 1, convert_bool},
});

// The Python dictionary of the header: the keys descr, fortran_order and shape, each exactly once.
class HeaderParser {
public:
    HeaderParser(std::string_view text, const ByteStream& stream) : text_(text), stream_(stream) {}

    struct Parsed {
        const ValueType* type = nullptr;
        std::vector<std::uint64_t> shape;
    };
    Parsed parse() {
        expect('{');
        while (!take('}')) {
            const auto key = string();
            expect(':');
            parse_value(key);
            if (!take(',') && peek() != '}') fail_header("expected a comma or '}' after a value");
        }
        blanks();
        if (!text_.empty() && text_ != "\n") fail_header("text follows the dictionary");
        if (descr_.empty() || order_.empty() || !shape_seen_) {
            fail_header("it must have the keys 'descr', 'fortran_order' and 'shape'");
        }
        return {.type = &value_type(), .shape = std::move(shape_)};
    }
    [[noreturn]] void fail_header(std::string_view reason) const {
        stream_.fail_file(fmt::format("invalid NPY header: {}", reason));
    }

private:
    void blanks() {
        while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
    }
    char peek() {
        blanks();
        return text_.empty() ? '\0' : text_.front();
    }
    bool take(char c) {
        if (peek() != c || text_.empty()) return false;
        text_.remove_prefix(1);
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail_header(fmt::format("expected '{}' before {}", c, in_quotes(text_)));
    }
    std::string_view string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') {
            fail_header(fmt::format("expected text in quotes before {}", in_quotes(text_)));
        }
        text_.remove_prefix(1);
        const auto end = text_.find(quote);
        if (end == std::string_view::npos) fail_header("a quote is not closed");
        const auto value = text_.substr(0, end);
        text_.remove_prefix(end + 1);
        return value;
    }
    std::string_view word() {
        blanks();
        std::size_t length = 0;
        while (length < text_.size() && ((text_[length] >= 'a' && text_[length] <= 'z') ||
                                         (text_[length] >= 'A' && text_[length] <= 'Z'))) {
            ++length;
        }
        const auto value = text_.substr(0, length);
        text_.remove_prefix(length);
        return value;
    }
    void parse_value(std::string_view key) {
        const bool repeated = (key == "descr" && !descr_.empty()) ||
                              (key == "fortran_order" && !order_.empty()) || (key == "shape" && shape_seen_);
        if (repeated) fail_header(fmt::format("duplicate key '{}'", key));
        if (key == "descr") {
            if (peek() == '[') fail_header("structured types are not supported; expected plain numbers");
            descr_ = string();
            if (descr_.empty()) fail_header("'descr' is empty");
        } else if (key == "fortran_order") {
            order_ = word();
            if (order_ != "True" && order_ != "False") {
                fail_header("'fortran_order' must be True or False");
            }
        } else if (key == "shape") {
            parse_shape();
        } else {
            fail_header(fmt::format("unknown key {}", in_quotes(key)));
        }
    }
    void parse_shape() {
        shape_seen_ = true;
        expect('(');
        bool comma = true;
        while (!take(')')) {
            if (!comma) fail_header("expected a comma between the numbers of 'shape'");
            blanks();
            std::uint64_t value = 0;
            const char* end = text_.data() + text_.size();
            const auto [stop, error] = std::from_chars(text_.data(), end, value);
            if (error != std::errc{}) fail_header("'shape' must hold integers from 0 to 2^64 - 1");
            text_.remove_prefix(static_cast<std::size_t>(stop - text_.data()));
            shape_.push_back(value);
            if (shape_.size() > kMaxDimensions)
                fail_header(fmt::format("more than {} dimensions", kMaxDimensions));
            comma = take(',');
        }
        if (shape_.size() == 1 && !comma) fail_header("'shape' must be a tuple");
    }
    const ValueType& value_type() const {
        const auto order = descr_.front();
        if (order == '>') fail_header(fmt::format("{} is big-endian; write it as '<'", in_quotes(descr_)));
        const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const ValueType& known) {
            return known.name == descr_.substr(1);
        });
        if (type == kTypes.end() || !(order == '<' || (order == '|' && type->bytes == 1))) {
            fail_header(fmt::format("unsupported type {}; expected <f4, <f8, |b1 or integers of 1 to 8 bytes",
                                    in_quotes(descr_)));
        }
        if (order_ == "True") {
            fail_header("the values are stored by columns (Fortran order); store them by rows (C order)");
        }
        return *type;
    }

    std::string_view text_;
    const ByteStream& stream_;
    std::string_view descr_;
    std::string_view order_;
    std::vector<std::uint64_t> shape_;
    bool shape_seen_ = false;
};

std::string read_exactly(ByteStream& stream, std::size_t bytes) {
    std::string text(bytes, '\0');
    if (stream.read(text) != bytes) stream.fail_file("truncated inside the NPY header");
    return text;
}

void check_size(const ByteStream& stream, const NpyHeader& header) {
    const auto there = stream.remaining();
    if (!there) return;
    const double expected = static_cast<double>(header.rows) * static_cast<double>(header.cols) *
                            static_cast<double>(header.value_bytes);
    // Files are far smaller than 2^53 bytes, so doubles compare exactly.
    if (expected != static_cast<double>(*there)) {
        stream.fail_file(
            fmt::format("{}: expected {} x {} values of {} bytes, got {} bytes",
                        expected > static_cast<double>(*there) ? "truncated" : "bytes follow the values",
                        header.rows, header.cols, header.value_bytes, *there));
    }
}

NpyHeader table_header(const HeaderParser& parser, const HeaderParser::Parsed& parsed) {
    const auto& shape = parsed.shape;
    if (shape.size() > 2) parser.fail_header("more than two dimensions; a table has one or two");
    if (shape.empty()) parser.fail_header("no dimensions; a table has one or two");
    NpyHeader header{.rows = shape[0],
                     .cols = shape.size() == 2 ? shape[1] : 1,
                     .value_bytes = parsed.type->bytes,
                     .convert = parsed.type->convert};
    if (header.cols == 0) parser.fail_header("a table needs at least one column");
    if (header.cols > kMaxColumns)
        parser.fail_header(fmt::format("{} columns; at most 2^31 are supported", header.cols));
    return header;
}

// Returns the text of the header and leaves the stream at the first value.
std::string read_header_text(ByteStream& stream) {
    std::string start(kMagic.size() + 2, '\0');
    const auto count = stream.read(start);
    if (count == 0) stream.fail_file("is empty");
    if (!start.starts_with(kMagic)) stream.fail_file("is not an NPY file");
    if (count < start.size()) stream.fail_file("truncated inside the NPY header");
    const auto version = static_cast<unsigned char>(start[kMagic.size()]);
    if (version < 1 || version > 3 || start.back() != '\0') {
        stream.fail_file(fmt::format("unsupported NPY version {}.{}; expected 1.0, 2.0 or 3.0", version,
                                     static_cast<unsigned char>(start.back())));
    }
    const auto length_bytes = read_exactly(stream, version == 1 ? 2 : 4);
    std::uint32_t length = 0;
    std::memcpy(&length, length_bytes.data(), length_bytes.size());
    if (length > kMaxNpyHeader)
        stream.fail_file(fmt::format("an NPY header of {} bytes is too large", length));
    return read_exactly(stream, length);
}

NpyHeader read_header(ByteStream& stream) {
    const auto text = read_header_text(stream);
    HeaderParser parser(text, stream);
    const auto header = table_header(parser, parser.parse());
    check_size(stream, header);
    return header;
}

// Bytes of an array; a double, since the product may not fit an integer.
double array_bytes(const NpyArray& array, std::size_t value_bytes) {
    auto bytes = static_cast<double>(value_bytes);
    for (const auto n : array.shape) bytes *= static_cast<double>(n);
    return bytes;
}

// shape: "2, 3"
std::string written_header(std::string_view descr, std::string_view shape, std::size_t length) {
    std::string header(kMagic);
    header += '\x01';
    header += '\x00';
    const auto rest = static_cast<std::uint16_t>(length - kMagic.size() - 4);
    header += static_cast<char>(rest & 0xffU);
    header += static_cast<char>(rest >> 8U);
    header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
    header.resize(length - 1, ' ');
    return header + '\n';
}

std::string written_header(std::uint64_t rows, std::uint64_t cols) {
    return written_header("<f4", fmt::format("{}, {}", rows, cols), kWrittenHeader);
}

}  // namespace

NpyRows::NpyRows(ByteStream stream, NanValues nan)
    : stream_(std::move(stream)), header_(read_header(stream_)), nan_(nan) {}

bool NpyRows::next(std::span<const float>& row) {
    if (row_ == header_.rows) {
        char extra = 0;
        if (stream_.read(std::span(&extra, 1)) != 0)
            stream_.fail_file(fmt::format("extra bytes after the {} rows given in the header", header_.rows));
        return false;
    }
    ++row_;
    values_.clear();
    const std::uint64_t chunk = kChunkBytes / header_.value_bytes;
    while (values_.size() < header_.cols) {
        const auto count = std::min<std::uint64_t>(chunk, header_.cols - values_.size());
        bytes_.resize(count * header_.value_bytes);
        if (stream_.read(bytes_) != bytes_.size())
            stream_.fail_file(fmt::format("row {}: truncated: expected {} rows", row_, header_.rows));
        header_.convert(bytes_, values_);
    }
    const auto bad = std::ranges::find_if(values_, [this](float v) {
        return !std::isfinite(v) && !(std::isnan(v) && nan_ == NanValues::keep);
    });
    if (bad != values_.end())
        stream_.fail_file(fmt::format("row {}: column {}: the value is not finite in 32 bits", row_,
                                      bad - values_.begin() + 1));
    row = values_;
    return true;
}

NpyArray read_npy_array(const std::filesystem::path& path) {
    return read_npy_array(ByteStream(path, {}));
}

NpyArray read_npy_array(ByteStream stream) {
    const auto text = read_header_text(stream);
    HeaderParser parser(text, stream);
    auto [type, shape] = parser.parse();
    NpyArray array{.type = std::string(type->name), .shape = std::move(shape)};
    const double expected = array_bytes(array, type->bytes);
    const auto there = stream.remaining();
    if (there && expected != static_cast<double>(*there))
        stream.fail_file(fmt::format("expected {} bytes of values, got {}", expected, *there));
    check_fits_memory(expected, 1.0, 1, stream.name() + ": the array");
    const auto size = static_cast<std::size_t>(expected);
    if (there) array.bytes.reserve(size);
    while (array.bytes.size() < size) {
        const auto first = array.bytes.size();
        array.bytes.resize(std::min(size, first + kChunkBytes));
        const auto part = std::span(array.bytes).subspan(first);
        if (stream.read(part) != part.size())
            stream.fail_file(fmt::format("truncated: expected {} bytes of values", size));
    }
    char extra = 0;
    if (stream.read(std::span(&extra, 1)) != 0) stream.fail_file("bytes follow the values");
    return array;
}

void write_npy_array(const std::filesystem::path& path, const NpyArray& array) {
    std::string shape;
    for (const auto n : array.shape) shape += fmt::format("{}, ", n);
    const auto descr = (array.type.ends_with('1') ? "|" : "<") + array.type;
    const std::size_t length = (kMagic.size() + 4 + descr.size() + shape.size() + 63) / 64 * 64 + 64;
    AtomicFile file(path);
    file.write(written_header(descr, shape, length));
    file.write(std::as_bytes(std::span(array.bytes)));
    file.commit();
}

Matrix<float> read_npy(const std::filesystem::path& path) {
    NpyRows rows{ByteStream(path, {})};
    const auto& header = rows.header();
    const bool size_known = rows.stream().remaining().has_value();
    check_fits_memory(static_cast<double>(header.rows), static_cast<double>(header.cols), sizeof(float),
                      path.string() + ": the matrix");
    std::span<const float> row;
    if (header.rows == 0) {
        rows.next(row);
        return {0, static_cast<std::size_t>(header.cols)};
    }
    Matrix<float> matrix;
    for (std::size_t r = 0; rows.next(row); ++r) {
        if (r == 0) matrix = Matrix<float>(size_known ? header.rows : 1, header.cols);
        if (r == matrix.rows()) matrix.resize_rows(std::min<std::size_t>(2 * r, header.rows));
        std::copy(row.begin(), row.end(), matrix.row(r).begin());
    }
    return matrix;
}

NpyWriter::NpyWriter(const std::filesystem::path& path, std::uint64_t cols) : file_(path), cols_(cols) {
    if (cols == 0)
        fail(ErrorCode::bad_usage, fmt::format("{}: a table needs at least one column", path.string()));
    file_.write(written_header(0, cols_));
}

void NpyWriter::append(MatrixView<const float> rows) {
    if (rows.cols() != cols_) {
        fail(ErrorCode::bad_usage,
             fmt::format("rows of {} values do not fit an NPY file of {} columns", rows.cols(), cols_));
    }
    for (std::size_t r = 0; r < rows.rows(); ++r) file_.write(std::as_bytes(rows.row(r)));
    rows_ += rows.rows();
}

void NpyWriter::commit() {
    file_.rewrite(0, written_header(rows_, cols_));
    file_.commit();
}

void write_npy(const std::filesystem::path& path, MatrixView<const float> values) {
    check_disk_space(path, static_cast<double>(values.rows()) * static_cast<double>(values.cols()) *
                               static_cast<double>(sizeof(float)));
    NpyWriter writer(path, values.cols());
    writer.append(values);
    writer.commit();
}

}  // namespace imka
