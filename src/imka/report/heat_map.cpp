#include "imka/report/heat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace imka::report {
namespace {

// Number of values above the level / number below it, as in the published pictures.
constexpr double kAbove = 0.03;
constexpr double kAboveDigital = 0.04;

std::size_t without_padding(const Matrix<float>& exact) {
    const std::size_t n = exact.rows();
    const float last = exact(n - 1, n - 1);
    std::size_t end = 0;
    while (exact(end, end) != last) ++end;
    return end + 1 == n ? n : std::max<std::size_t>(end, 1);
}

HeatMap heat_map(const std::string& name, MatrixView<const float> values, double above) {
    std::vector<float> sorted;
    for (std::size_t r = 0; r < values.rows(); ++r)
        sorted.insert(sorted.end(), values.row(r).begin(), values.row(r).end());
    std::ranges::sort(sorted);
    const auto place = static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) / (1.0 + above));
    const float low = sorted.front();
    const float span = std::max(sorted[place] - low, 1e-30F);
    HeatMap map{.name = name, .levels = Matrix<std::uint8_t>(values.rows(), values.cols())};
    for (std::size_t r = 0; r < values.rows(); ++r) {
        for (std::size_t c = 0; c < values.cols(); ++c)
            map.levels(r, c) = static_cast<std::uint8_t>(
                std::lround(255.0F * std::clamp((values(r, c) - low) / span, 0.0F, 1.0F)));
    }
    return map;
}

// A polynomial close to matplotlib's "inferno".
std::array<std::uint8_t, 3> colour(double t) {
    constexpr double kTerms[7][3] = {
        {0.00021894, 0.00165100, -0.01948090},     {0.10651342, 0.56395644, 3.93271239},
        {11.60249308, -3.97285397, -15.94239411},  {-41.70399613, 17.43639888, 44.35414520},
        {77.16293570, -33.40235894, -81.80730926}, {-71.31942824, 32.62606426, 73.20951986},
        {25.13112622, -12.24266895, -23.07032500}};
    std::array<std::uint8_t, 3> rgb{};
    for (std::size_t i = 0; i < 3; ++i) {
        double v = 0.0;
        for (std::size_t k = 7; k-- > 0;) v = v * t + kTerms[k][i];
        rgb[i] = static_cast<std::uint8_t>(std::lround(255.0 * std::clamp(v, 0.0, 1.0)));
    }
    return rgb;
}

void append_number(std::uint32_t v, std::string& to) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) to += static_cast<char>((v >> shift) & 0xFFU);
}

std::uint32_t crc32(std::string_view bytes) {
    std::uint32_t crc = 0xFFFFFFFFU;
    for (const char c : bytes) {
        crc ^= static_cast<unsigned char>(c);
        for (int k = 0; k < 8; ++k) crc = (crc >> 1U) ^ (0xEDB88320U & (0U - (crc & 1U)));
    }
    return ~crc;
}

void append_chunk(std::string_view type, std::string_view data, std::string& to) {
    append_number(static_cast<std::uint32_t>(data.size()), to);
    const auto body = std::string(type) + std::string(data);
    to += body;
    append_number(crc32(body), to);
}

// A zlib stream of stored blocks: small pictures need no compression.
std::string stored(std::string_view data) {
    std::string out = "\x78\x01";
    std::uint32_t a = 1;
    std::uint32_t b = 0;
    for (const char c : data) {
        a = (a + static_cast<unsigned char>(c)) % 65521U;
        b = (b + a) % 65521U;
    }
    constexpr std::size_t kBlock = 65535;
    for (std::size_t at = 0; at < data.size(); at += kBlock) {
        const auto part = data.substr(at, kBlock);
        const auto n = static_cast<std::uint16_t>(part.size());
        out += at + part.size() == data.size() ? '\x01' : '\x00';
        for (const auto v : {n, static_cast<std::uint16_t>(~n)}) {
            out += static_cast<char>(v & 0xFFU);
            out += static_cast<char>(v >> 8U);
        }
        out += part;
    }
    append_number((b << 16U) | a, out);
    return out;
}

}  // namespace

std::vector<HeatMap> heat_maps(const AttentionPicture& picture) {
    const auto n = without_padding(picture.matrices.front());
    std::vector<HeatMap> maps;
    for (std::size_t i = 0; i < picture.matrices.size(); ++i)
        maps.push_back(heat_map(picture.names[i],
                                picture.matrices[i].view().slice_rows(0, n).slice_cols(0, n),
                                picture.names[i] == "FP32" ? kAboveDigital : kAbove));
    return maps;
}

std::string png_bytes(const Matrix<std::uint8_t>& levels) {
    std::string header;
    append_number(static_cast<std::uint32_t>(levels.cols()), header);
    append_number(static_cast<std::uint32_t>(levels.rows()), header);
    header += std::string("\x08\x03\x00\x00\x00", 5);  // 8 bits, indexed
    std::string palette;
    for (int i = 0; i < 256; ++i) {
        for (const auto v : colour(i / 255.0)) palette += static_cast<char>(v);
    }
    std::string rows;
    for (std::size_t r = 0; r < levels.rows(); ++r) {
        rows += '\0';  // no filter
        for (const auto v : levels.row(r)) rows += static_cast<char>(v);
    }
    std::string png = "\x89PNG\r\n\x1a\n";
    append_chunk("IHDR", header, png);
    append_chunk("PLTE", palette, png);
    append_chunk("IDAT", stored(rows), png);
    append_chunk("IEND", "", png);
    return png;
}

std::string base64(std::string_view bytes) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t word = 0;
        for (std::size_t k = 0; k < 3; ++k)
            word = (word << 8U) | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            out +=
                k > bytes.size() - i ? '=' : kDigits[(word >> (18U - 6U * static_cast<unsigned>(k))) & 63U];
    }
    return out;
}

std::string heat_map_svg(const std::vector<HeatMap>& maps) {
    constexpr int kSide = 320;
    constexpr int kGap = 20;
    constexpr int kTop = 30;
    const int width = static_cast<int>(maps.size()) * (kSide + kGap) + kGap;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"14\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        width, kTop + kSide + kGap);
    for (std::size_t i = 0; i < maps.size(); ++i) {
        const int left = kGap + static_cast<int>(i) * (kSide + kGap);
        // A backend may be the name of a file.
        std::string name = maps[i].name.substr(maps[i].name.find_last_of('/') + 1);
        std::erase_if(name, [](char c) { return c == '<' || c == '>' || c == '&' || c == '"'; });
        svg +=
            fmt::format("<text x=\"{}\" y=\"20\" text-anchor=\"middle\">{}</text>\n", left + kSide / 2, name);
        svg += fmt::format(
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"image-rendering:pixelated\" "
            "href=\"data:image/png;base64,{}\"/>\n",
            left, kTop, kSide, kSide, base64(png_bytes(maps[i].levels)));
    }
    return svg + "</svg>\n";
}

}  // namespace imka::report
