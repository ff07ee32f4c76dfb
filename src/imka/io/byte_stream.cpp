#include "imka/io/byte_stream.hpp"

#include <bzlib.h>
#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/io/raw_input.hpp"

namespace imka {

class ByteSource {
public:
    ByteSource() = default;
    virtual ~ByteSource() = default;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;
    virtual std::size_t read(std::span<char> out) = 0;  // 0 only at the end; out is not empty
};

namespace {

constexpr std::size_t kLineBuffer = std::size_t{64} << 10U;
// xz -9 needs 65 MiB and zstd --long=27 needs 128 MiB; data that need more are malicious or unusual.
constexpr std::uint64_t kXzMemory = std::uint64_t{256} << 20U;
constexpr int kZstdWindowLog = 27;

class PlainSource final : public ByteSource {
public:
    explicit PlainSource(RawInput input) : input_(std::move(input)) {}
    std::size_t read(std::span<char> out) override {
        const auto in = input_.pending();
        const auto count = std::min(in.size(), out.size());
        std::memcpy(out.data(), in.data(), count);
        input_.consume(count);
        return count;
    }

private:
    RawInput input_;
};

// Result of one call of a decompressor.
struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool member_end = false;  // a complete member was decoded and verified
};

// Decodes all members of the file in sequence.
class Decoder : public ByteSource {
public:
    Decoder(RawInput input, Compression kind) : input_(std::move(input)), kind_(kind) {}
    std::size_t read(std::span<char> out) final {
        out = out.first(std::min(out.size(), std::size_t{1} << 30U));
        while (true) {
            const auto in = input_.pending();
            if (between_members_) {
                if (in.empty()) return 0;
                restart();
                between_members_ = false;
            }
            const Step done = step(in, out);
            input_.consume(done.consumed);
            between_members_ = done.member_end;
            if (done.produced > 0) return done.produced;
            if (done.consumed == 0 && !done.member_end) {
                if (in.empty()) fail_truncated();
                fail_damaged("no progress");
            }
        }
    }

protected:
    // `in` is empty at the end of the file.
    virtual Step step(std::string_view in, std::span<char> out) = 0;
    virtual void restart() = 0;
    [[noreturn]] void fail_truncated() const {
        fail(ErrorCode::bad_data, fmt::format("{}: truncated: the {} data end early, at byte {}",
                                              input_.name(), to_string(kind_), input_.offset()));
    }
    [[noreturn]] void fail_damaged(std::string_view reason) const {
        fail(ErrorCode::bad_data, fmt::format("{}: the {} data are damaged near byte {}: {}", input_.name(),
                                              to_string(kind_), input_.offset(), reason));
    }

private:
    RawInput input_;
    Compression kind_;
    bool between_members_ = false;
};

class GzipDecoder final : public Decoder {
public:
    explicit GzipDecoder(RawInput input) : Decoder(std::move(input), Compression::gzip) {
        constexpr int kGzipOnly = 15 + 16;
        if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
    }
    ~GzipDecoder() override { inflateEnd(&stream_); }
    GzipDecoder(const GzipDecoder&) = delete;
    GzipDecoder& operator=(const GzipDecoder&) = delete;

private:
    Step step(std::string_view in, std::span<char> out) override {
        // zlib does not write to its input, but its interface is not const-correct.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
        stream_.avail_in = static_cast<uInt>(in.size());
        stream_.next_out = reinterpret_cast<Bytef*>(out.data());
        stream_.avail_out = static_cast<uInt>(out.size());
        const int code = inflate(&stream_, Z_NO_FLUSH);
        if (code == Z_MEM_ERROR) throw std::bad_alloc();
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
            fail_damaged(stream_.msg != nullptr ? stream_.msg : "not gzip");
        }
        return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == Z_STREAM_END};
    }
    void restart() override { inflateReset(&stream_); }

    z_stream stream_{};
};

class Bzip2Decoder final : public Decoder {
public:
    explicit Bzip2Decoder(RawInput input) : Decoder(std::move(input), Compression::bzip2) { begin(); }
    ~Bzip2Decoder() override { BZ2_bzDecompressEnd(&stream_); }
    Bzip2Decoder(const Bzip2Decoder&) = delete;
    Bzip2Decoder& operator=(const Bzip2Decoder&) = delete;

private:
    void begin() {
        if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
    }
    Step step(std::string_view in, std::span<char> out) override {
        stream_.next_in = const_cast<char*>(in.data());  // not written to
        stream_.avail_in = static_cast<unsigned>(in.size());
        stream_.next_out = out.data();
        stream_.avail_out = static_cast<unsigned>(out.size());
        const int code = BZ2_bzDecompress(&stream_);
        if (code == BZ_MEM_ERROR) throw std::bad_alloc();
        if (code == BZ_DATA_ERROR_MAGIC) fail_damaged("expected a bzip2 header");
        if (code != BZ_OK && code != BZ_STREAM_END) fail_damaged("invalid checksum or code");
        return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == BZ_STREAM_END};
    }
    void restart() override {
        BZ2_bzDecompressEnd(&stream_);
        stream_ = {};
        begin();
    }

    bz_stream stream_{};
};

class XzDecoder final : public Decoder {
public:
    explicit XzDecoder(RawInput input) : Decoder(std::move(input), Compression::xz) {
        if (lzma_stream_decoder(&stream_, kXzMemory, LZMA_CONCATENATED) != LZMA_OK) throw std::bad_alloc();
    }
    ~XzDecoder() override { lzma_end(&stream_); }
    XzDecoder(const XzDecoder&) = delete;
    XzDecoder& operator=(const XzDecoder&) = delete;

private:
    Step step(std::string_view in, std::span<char> out) override {
        stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
        stream_.avail_in = in.size();
        stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
        stream_.avail_out = out.size();
        const lzma_ret code = lzma_code(&stream_, in.empty() ? LZMA_FINISH : LZMA_RUN);
        if (code == LZMA_MEM_ERROR) throw std::bad_alloc();
        if (code == LZMA_MEMLIMIT_ERROR) {
            fail_damaged(fmt::format("decoding needs more than {} MiB of memory", kXzMemory >> 20U));
        }
        if (code == LZMA_OPTIONS_ERROR) fail_damaged("unsupported option");
        if (code != LZMA_OK && code != LZMA_STREAM_END && code != LZMA_BUF_ERROR) {
            fail_damaged("invalid checksum or code");
        }
        return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == LZMA_STREAM_END};
    }
    void restart() override {}  // the decoder itself reads all members

    lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecoder final : public Decoder {
public:
    explicit ZstdDecoder(RawInput input)
        : Decoder(std::move(input), Compression::zstd), context_(ZSTD_createDCtx()) {
        if (!context_) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
    }

private:
    Step step(std::string_view in, std::span<char> out) override {
        ZSTD_inBuffer from{in.data(), in.size(), 0};
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        const std::size_t code = ZSTD_decompressStream(context_.get(), &to, &from);
        if (ZSTD_isError(code) != 0) fail_damaged(ZSTD_getErrorName(code));
        return {from.pos, to.pos, code == 0};
    }
    void restart() override { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }

    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    std::unique_ptr<ZSTD_DCtx, Free> context_;
};

// The first bytes of a compressed file. `least`: how many of them distinguish it from text, so that a shorter
// file is reported as truncated.
struct Magic {
    Compression compression;
    std::string_view bytes;
    std::size_t least;
};

bool begins(std::string_view file, const Magic& magic) {
    const auto count = std::min(file.size(), magic.bytes.size());
    return count >= magic.least && file.substr(0, count) == magic.bytes.substr(0, count);
}

constexpr std::size_t kMagicBytes = 10;

Compression detect(std::string_view file) {
    using namespace std::string_view_literals;
    constexpr auto kMagics = std::to_array<Magic>({
        {Compression::gzip, "\x1f\x8b\x08"sv, 2},
        {Compression::xz,
         "\xfd"
         "7zXZ\0"sv,
         2},
        {Compression::zstd, "\x28\xb5\x2f\xfd"sv, 2},
    });
    for (const auto& magic : kMagics) {
        if (begins(file, magic)) return magic.compression;
    }
    // Text may begin with "BZh" and a digit, so the marker of the first block (or of the end) must follow.
    if (file.size() >= 4 && file.substr(0, 3) == "BZh" && file[3] >= '1' && file[3] <= '9') {
        const auto mark = file.substr(4);
        if (begins(mark, {Compression::bzip2, "1AY&SY"sv, 0}) ||
            begins(mark, {Compression::bzip2, "\x17rE8P\x90"sv, 0})) {
            return Compression::bzip2;
        }
    }
    return Compression::none;
}

std::unique_ptr<ByteSource> make_source(RawInput input, Compression compression) {
    switch (compression) {
        case Compression::gzip:
            return std::make_unique<GzipDecoder>(std::move(input));
        case Compression::bzip2:
            return std::make_unique<Bzip2Decoder>(std::move(input));
        case Compression::xz:
            return std::make_unique<XzDecoder>(std::move(input));
        case Compression::zstd:
            return std::make_unique<ZstdDecoder>(std::move(input));
        case Compression::none:
            break;
    }
    return std::make_unique<PlainSource>(std::move(input));
}

}  // namespace

ByteStream::ByteStream(const std::filesystem::path& path, StreamOptions options, const Exec& exec)
    : name_(path.string()), options_(std::move(options)) {
    open(RawInput(InputDescriptor(path), exec));
}

ByteStream::ByteStream(std::string name, std::string_view bytes, StreamOptions options)
    : name_(std::move(name)), options_(std::move(options)) {
    open(RawInput(name_, bytes));
}

// A regular file is opened again for every pass.
ByteStream::ByteStream(const InputFile& file, const StreamOptions& options, const Exec& exec)
    : name_(file.path().string()), options_(options) {
    if (!file.spool_->started()) {
        InputDescriptor input(file.path());
        if (input.file_bytes()) {
            open(RawInput(std::move(input), exec));
            return;
        }
        file.spool_->start(std::move(input), options.spool_folder);
    }
    open(RawInput(file.spool_, exec));
}

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), spool_(std::make_shared<Spool>()) {}

void ByteStream::open(RawInput input) {
    if (options_.decompress) compression_ = detect(input.peek(kMagicBytes));
    if (compression_ == Compression::none) plain_bytes_ = input.size();
    source_ = make_source(std::move(input), compression_);
}

ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;

std::size_t ByteStream::decode(std::span<char> out) {
    const auto count = source_->read(out);
    decoded_ += count;
    if (decoded_ > options_.max_bytes) {
        fail_file(fmt::format("larger than the limit of {} bytes{}", options_.max_bytes,
                              compression_ == Compression::none ? "" : " after decompression"));
    }
    return count;
}

bool ByteStream::fill() {
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (buffer_.empty()) {
        // One byte more than the size of a small file, so that its end is found without growing the buffer.
        buffer_.resize(static_cast<std::size_t>(
            std::min<std::uint64_t>(kLineBuffer, plain_bytes_.value_or(kLineBuffer) + 1)));
    } else if (end_ == buffer_.size()) {
        buffer_.resize(2 * buffer_.size());
    }
    const auto count = decode(std::span(buffer_).subspan(end_));
    end_ += count;
    return count > 0;
}

bool ByteStream::next_line(std::string_view& line) {
    std::size_t searched = 0;
    std::size_t length = 0;
    std::size_t line_end_bytes = 1;
    while (true) {
        const char* first = buffer_.data() + begin_ + searched;
        const std::size_t unsearched = end_ - begin_ - searched;
        const void* found = unsearched > 0 ? std::memchr(first, '\n', unsearched) : nullptr;
        length = end_ - begin_;
        if (found != nullptr) {
            length = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data()) - begin_;
        }
        if (length > options_.max_line_bytes) {
            ++line_;
            fail_line(fmt::format("longer than the limit of {} bytes", options_.max_line_bytes));
        }
        if (found != nullptr) break;
        searched = length;
        if (!fill()) {
            if (length == 0) return false;
            line_end_bytes = 0;
            break;
        }
    }
    line = std::string_view(buffer_.data() + begin_, length);
    begin_ += length + line_end_bytes;
    ++line_;
    line_end_ = line_end_bytes == 0 ? "" : "\n";
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
        line_end_ = line_end_bytes == 0 ? "\r" : "\r\n";
    }
    if (line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    return true;
}

std::size_t ByteStream::read(std::span<char> out) {
    const auto buffered = std::min(out.size(), end_ - begin_);
    if (buffered > 0) std::memcpy(out.data(), buffer_.data() + begin_, buffered);
    begin_ += buffered;
    std::size_t done = buffered;
    while (done < out.size()) {
        const auto count = decode(out.subspan(done));
        if (count == 0) break;
        done += count;
    }
    return done;
}

std::optional<std::uint64_t> ByteStream::remaining() const {
    if (!plain_bytes_) return std::nullopt;
    const auto handed_out = decoded_ - (end_ - begin_);
    return *plain_bytes_ > handed_out ? *plain_bytes_ - handed_out : 0;
}

void ByteStream::fail_file(std::string_view message) const {
    fail(ErrorCode::bad_data, fmt::format("{}: {}", name_, message));
}

void ByteStream::fail_line(std::string_view message) const {
    fail(ErrorCode::bad_data, fmt::format("{}: line {}: {}", name_, line_, message));
}

}  // namespace imka
