// imka bench --calibrate: cost of dense and structured projection on this machine, compared with the cost
// model.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::app {
namespace {

std::vector<OmegaRecipe> shapes(bool quick) {
    const std::vector<std::int64_t> inputs =
        quick ? std::vector<std::int64_t>{8, 64}
              : std::vector<std::int64_t>{1, 4, 12, 16, 22, 32, 48, 64, 100, 128, 256, 512, 1000, 2048, 4096};
    const std::vector<std::int64_t> outputs =
        quick ? std::vector<std::int64_t>{256} : std::vector<std::int64_t>{64, 256, 1024, 4096};
    std::vector<OmegaRecipe> list;
    for (const auto d : inputs)
        for (const auto m : outputs)
            list.push_back(
                {.gamma = 0.5 / static_cast<double>(d), .sampler = Sampler::sorf, .d = d, .m = m, .seed = 1});
    return list;
}

// Minimum time over alternating rounds.
ProjectionTiming measure(const OmegaRecipe& recipe, int rounds) {
    const auto d = static_cast<std::size_t>(recipe.d);
    const auto m = static_cast<std::size_t>(recipe.m);
    const SorfProjector structured(recipe);
    const DigitalProjector dense(normals(m, d, 1));
    const auto x = normals(kTileRows, d, 0);
    Matrix<float> u(kTileRows, m);
    // Enough passes for the resolution of the clock.
    const auto passes = 1 + 20'000'000 / (kTileRows * m * (d + 64));
    const auto row_nanoseconds = [&](const Projector& p) {
        const auto body = [&] {
            for (std::size_t i = 0; i < passes; ++i) p.project(x.view(), {}, {.threads = 1}, u.view());
        };
        return seconds_of(body) * 1e9 / static_cast<double>(passes * kTileRows);
    };
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    ProjectionTiming best{.recipe = recipe, .cost = {.dense = kInfinite, .structured = kInfinite}};
    for (int r = 0; r < rounds; ++r) {
        best.cost.dense = std::min(best.cost.dense, row_nanoseconds(dense));
        best.cost.structured = std::min(best.cost.structured, row_nanoseconds(structured));
    }
    return best;
}

const char* choice(double gain) {
    return gain >= kLeastGain ? "structured" : "dense";
}

Json constants_json(const ProjectionConstants& c) {
    return {{"dense_fixed", c.dense_fixed},
            {"dense_input", c.dense_input},
            {"structured_fixed", c.structured_fixed},
            {"structured_level", c.structured_level}};
}

// Number of shapes for which the model makes the same choice as the measurement.
std::ptrdiff_t agreements(const std::vector<ProjectionTiming>& timings, const ProjectionConstants& c) {
    return std::ranges::count_if(timings, [&](const auto& t) {
        return (projection_cost(t.recipe, c).gain() >= kLeastGain) == (t.cost.gain() >= kLeastGain);
    });
}

Json report_json(const std::vector<ProjectionTiming>& timings, const ProjectionConstants& fitted) {
    Json j = {{"constants", constants_json(kProjectionConstants)}, {"fitted", constants_json(fitted)}};
    j["least_gain"] = kLeastGain;
    j["agreements"] = agreements(timings, kProjectionConstants);
    j["fitted_agreements"] = agreements(timings, fitted);
    j["shapes"] = Json::array();
    for (const auto& t : timings) {
        j["shapes"].push_back({{"d", t.recipe.d},
                               {"m", t.recipe.m},
                               {"dense_nanoseconds", t.cost.dense},
                               {"structured_nanoseconds", t.cost.structured},
                               {"gain", t.cost.gain()},
                               {"model_gain", projection_cost(t.recipe).gain()},
                               {"fitted_gain", projection_cost(t.recipe, fitted).gain()}});
    }
    return j;
}

void print_report(const std::vector<ProjectionTiming>& timings, const ProjectionConstants& fitted) {
    TextTable rows = {{"d", "m", "measured gain", "model", "fitted", "measured choice", "model", "fitted"}};
    for (const auto& t : timings) {
        const double gain = t.cost.gain();
        const double model = projection_cost(t.recipe).gain();
        const double other = projection_cost(t.recipe, fitted).gain();
        rows.push_back({fmt::format("{}", t.recipe.d), fmt::format("{}", t.recipe.m),
                        fmt::format("{:.2f}", gain), fmt::format("{:.2f}", model),
                        fmt::format("{:.2f}", other), choice(gain), choice(model), choice(other)});
    }
    print_out("{}", format_table(rows));
    print_out(
        "\ngain: time of the dense product / time of the transforms, one core. The transforms are used for "
        "gains of at least {}.\nThe model makes the measured choice for {} of {} shapes, the fitted model "
        "for {}.\n\nTo update the model, put this into src/imka/features/choose_projector.hpp. Where the "
        "choice changes, the\nlow bits of results change too: that needs a new version "
        "(docs/adr/0008-structured-projection.md).\n\n"
        "inline constexpr ProjectionConstants kProjectionConstants = {{\n    .dense_fixed = {:.3g}, "
        ".dense_input = {:.3g}, .structured_fixed = {:.3g}, .structured_level = {:.3g}}};\n",
        kLeastGain, agreements(timings, kProjectionConstants), timings.size(), agreements(timings, fitted),
        fitted.dense_fixed, fitted.dense_input, fitted.structured_fixed, fitted.structured_level);
}

}  // namespace

void calibrate_projection(const CalibrateOptions& options, const Exec& exec) {
    const auto list = shapes(options.quick);
    Progress progress(exec, "calibrate", list.size());
    std::vector<ProjectionTiming> timings;
    for (const auto& recipe : list) {
        check_cancelled(exec);
        timings.push_back(measure(recipe, options.rounds));
        progress.update(timings.size());
    }
    const auto fitted = fit_projection_constants(timings);
    if (options.json) {
        print_out("{}\n", report_json(timings, fitted).dump());
    } else {
        print_report(timings, fitted);
    }
}

}  // namespace imka::app
