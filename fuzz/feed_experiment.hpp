// Shared by the fuzzers of experiment files and records and the test that replays their seeds.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "imka/base/error.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/spec.hpp"

namespace imka::fuzz {

// An accepted experiment must round-trip, and expand or fail with imka::Error.
inline void feed_experiment(std::string_view bytes) {
    std::string text;
    try {
        const auto experiment = parse_experiment(bytes, "input");
        text = to_yaml(experiment);
        // More runs would only slow down the fuzzer.
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

// Reading a line never throws; a record that was read must round-trip.
inline void feed_record(std::string_view bytes) {
    const auto line = parse_record(bytes);
    if (!line.record) return;
    const auto text = to_json_line(*line.record);
    const auto again = parse_record(text);
    if (!again.record || to_json_line(*again.record) != text) throw std::logic_error("reads back as another");
    (void)to_csv({*line.record});
}

}  // namespace imka::fuzz
