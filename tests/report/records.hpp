// Records for tests of reports: as a sweep writes them, with synthetic results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/experiment/sweep.hpp"

struct RecordSpec {
    std::string experiment = "mine";
    std::string dataset = "letter";
    std::string protocol = "default";
    std::string kernel = "rbf";
    std::string sampler = "orf";
    std::string backend = "fp32";
    double log_ratio = 1.0;
    std::int64_t m = 32;
    std::uint64_t seed = 0;
    double accuracy = 0.9;
    double gram_error = 0.2;
};

inline imka::Record make_record(const RecordSpec& s) {
    const imka::RunConfig usual;
    imka::Record r{.experiment = s.experiment,
                   .kind = "ridge",
                   .seed = s.seed,
                   .config = imka::settings_text(usual),
                   .data_sha256 = "d1",
                   .results = {{"d", 16.0},
                               {"m", static_cast<double>(s.m)},
                               {"D", 2.0 * static_cast<double>(s.m)},
                               {"log_ratio", s.log_ratio},
                               {"accuracy", s.accuracy},
                               {"gram_error", s.gram_error}},
                   .imka_version = "0.1.0",
                   .build = "test",
                   .instruction_set = "AVX2",
                   .wall_seconds = 0.5,
                   .peak_memory_mb = 10.0,
                   .finished = "2026-01-31T12:00:00Z"};
    r.config["dataset"] = s.dataset;
    r.config["protocol"] = s.protocol;
    r.config["kernel"] = s.kernel;
    r.config["sampler"] = s.sampler;
    r.config["backend"] = s.backend;
    r.config["log_ratio"] = std::to_string(s.log_ratio);
    r.config["seeds"] = std::to_string(s.seed);
    r.key = imka::run_key(r.kind, r.config, r.data_sha256);
    return r;
}

// `experiment` in the full grid of the ridge experiments: 6 data sets × 2 kernels × 3 samplers × r = 1..5 ×
// seeds.
inline std::vector<imka::Record> ridge_grid(const std::string& experiment, const std::string& protocol,
                                            std::uint64_t seeds) {
    std::vector<imka::Record> records;
    for (const auto* dataset : {"cod-rna", "eeg", "ijcnn1", "letter", "magic", "skin"}) {
        for (const auto* kernel : {"rbf", "arccos0"}) {
            for (const auto* sampler : {"rff", "orf", "sorf"}) {
                for (int r = 1; r <= 5; ++r) {
                    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
                        const double wobble = 0.001 * static_cast<double>(seed % 7);
                        records.push_back(make_record({.experiment = experiment,
                                                       .dataset = dataset,
                                                       .protocol = protocol,
                                                       .kernel = kernel,
                                                       .sampler = sampler,
                                                       .log_ratio = static_cast<double>(r),
                                                       .m = std::int64_t{16} << r,
                                                       .seed = seed,
                                                       .accuracy = 0.8 + 0.02 * r + wobble,
                                                       .gram_error = 0.4 / r + wobble}));
                    }
                }
            }
        }
    }
    return records;
}
