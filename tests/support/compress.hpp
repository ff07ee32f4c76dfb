// Compresses bytes, for tests of the readers.
#pragma once

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "imka/io/byte_stream.hpp"

inline std::string gzip_bytes(std::string_view text) {
    z_stream stream{};
    if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int code = deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    if (code != Z_STREAM_END) throw std::runtime_error("deflate failed");
    return out;
}

inline std::string bzip2_bytes(std::string_view text) {
    auto size = static_cast<unsigned>(text.size() + text.size() / 50 + 1000);
    std::string out(size, '\0');
    if (BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(text.data()),
                                 static_cast<unsigned>(text.size()), 9, 0, 0) != BZ_OK) {
        throw std::runtime_error("bzip2 failed");
    }
    out.resize(size);
    return out;
}

// dictionary_bytes: memory that a decoder needs.
inline std::string xz_bytes(std::string_view text, std::uint32_t dictionary_bytes = 1U << 20U) {
    lzma_options_lzma options{};
    lzma_lzma_preset(&options, 0);
    options.dict_size = dictionary_bytes;
    const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    std::size_t size = 0;
    if (lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC64, nullptr,
                                  reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                  reinterpret_cast<std::uint8_t*>(out.data()), &size,
                                  out.size()) != LZMA_OK) {
        throw std::runtime_error("xz failed");
    }
    out.resize(size);
    return out;
}

// With a checksum, like the zstd program.
inline std::string zstd_bytes(std::string_view text) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    std::string out(ZSTD_compressBound(text.size()), '\0');
    const auto size = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
    ZSTD_freeCCtx(context);
    if (ZSTD_isError(size) != 0) throw std::runtime_error("zstd failed");
    out.resize(size);
    return out;
}

inline std::string compressed(std::string_view text, imka::Compression kind) {
    switch (kind) {
        case imka::Compression::gzip:
            return gzip_bytes(text);
        case imka::Compression::bzip2:
            return bzip2_bytes(text);
        case imka::Compression::xz:
            return xz_bytes(text);
        case imka::Compression::zstd:
            return zstd_bytes(text);
        case imka::Compression::none:
            break;
    }
    return std::string(text);
}
