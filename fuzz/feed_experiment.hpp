// What the fuzzers of experiment files and records, and the test that repeats their seeds, do with bytes.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "imka/base/error.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/spec.hpp"

namespace imka::fuzz {

// What is accepted must be readable again when it is written out, and expands or says why not.
inline void feed_experiment(std::string_view bytes) {
    std::string text;
    try {
        const auto experiment = parse_experiment(bytes, "input");
        text = to_yaml(experiment);
        // More would only take the fuzzer's time.
        if (count_runs(experiment) <= 500) (void)expand(experiment);
    } catch (const Error&) {
    }
    if (text.empty()) return;
    try {
        if (to_yaml(parse_experiment(text, "input")) == text) return;
    } catch (const Error& e) {
        throw std::logic_error("cannot be read again: " + std::string(e.what()));
    }
    throw std::logic_error("reads back as something else");
}

// A line never fails; a record that was read is written as a line that gives the same record.
inline void feed_record(std::string_view bytes) {
    const auto line = parse_record(bytes);
    if (!line.record) return;
    const auto text = to_json_line(*line.record);
    const auto again = parse_record(text);
    if (!again.record || to_json_line(*again.record) != text) throw std::logic_error("reads back as another");
    (void)to_csv({*line.record});
}

}  // namespace imka::fuzz
