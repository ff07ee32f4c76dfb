// Shared by the fuzzers and the test that replays their seeds. Bad input may only throw imka::Error; any
// other exception or a sanitizer report is a finding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/io/safetensors.hpp"
#include "imka/io/settings.hpp"

namespace imka::fuzz {

// Small, so that decompression bombs and huge lines do not slow down the fuzzer.
inline const StreamOptions kLimits{.max_bytes = 1U << 20U, .max_line_bytes = 1U << 16U};

inline void feed_rows(std::string_view bytes, const ReadOptions& options) {
    try {
        const auto reader = open_rows(ByteStream("input", bytes, kLimits), options);
        Row row;
        while (reader->next(row)) {
        }
    } catch (const Error&) {
        return;
    }
}

inline void feed_libsvm(std::string_view bytes) {
    feed_rows(bytes, {.format = Format::libsvm});
    feed_rows(bytes, {.format = Format::libsvm, .features = 3});
}

inline void feed_arff(std::string_view bytes) {
    feed_rows(bytes, {.format = Format::arff});
    feed_rows(bytes, {.format = Format::arff, .label_column = "none", .drop_columns = {"a"}});
}

inline void feed_csv(std::string_view bytes) {
    feed_rows(bytes, {.format = Format::csv});
    feed_rows(bytes, {.format = Format::csv, .label_column = "first", .header = Header::yes});
    feed_rows(bytes, {.format = Format::csv, .label_column = "y", .drop_columns = {"1"}});
    feed_rows(bytes, {.format = Format::csv, .header = Header::no, .delimiter = ' '});
    feed_rows(bytes, {.format = Format::csv, .missing = Missing::drop});
    feed_rows(bytes, {.format = Format::csv, .missing = Missing::mean, .features = 2});
}

inline void feed_npy(std::string_view bytes) {
    feed_rows(bytes, {.format = Format::npy});
    feed_rows(bytes, {.format = Format::npy, .label_column = "last"});
}

inline void feed_safetensors(std::string_view bytes) {
    try {
        read_safetensors(ByteStream("input", bytes, {.decompress = false}));
    } catch (const Error&) {
        return;
    }
}

inline void feed_config(std::string_view bytes) {
    double alpha = 0.5;
    std::int64_t count = 1;
    bool flag = false;
    std::optional<double> gamma;
    std::string name;
    std::vector<std::uint64_t> seeds;
    const Fields fields{
        field("alpha", alpha, {.help = "a number", .unit = "", .min = 0}),
        field("count", count, {.help = "a whole number", .unit = "", .min = 1, .max = 9}),
        field("flag", flag, {.help = "true or false"}),
        field("gamma", gamma, {.help = "a number or auto"}),
        field("name", name, {.help = "text"}),
        field("seeds", seeds, {.help = "a list"}),
    };
    try {
        load_yaml_text(bytes, "input", fields);
        to_json(fields);
    } catch (const Error&) {
        return;
    }
}

}  // namespace imka::fuzz
