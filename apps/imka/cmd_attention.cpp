// imka attention: error of kernelised attention against exact attention.
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <string>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/experiment/attention_run.hpp"
#include "imka/report/heat_map.hpp"
#include "model_options.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct AttentionArgs {
    RunArgs run;
    std::filesystem::path heat_map;
    std::filesystem::path plan;
    AttentionArgs() { run.config = attention_defaults(); }
};

constexpr std::size_t kHeatMapSize = 512;

// "0.0123 ± 0.002 (10 seeds; median 0.012, 95 % interval 0.011 to 0.014)"
std::string error_text(const Summary& s) {
    if (s.n == 1) return fmt::format("{:.4g} (one seed)", s.mean);
    const auto m = median_interval(s.values);
    return fmt::format("{:.4g} ± {:.2g} ({} seeds; median {:.4g}, {:.0f} % interval {:.4g} to {:.4g})",
                       s.mean, s.std, s.n, m.median, 100.0 * m.confidence, m.low, m.high);
}

void print_offload(const Offload& offload) {
    const auto& products = offload.trace.core_products;
    print_out("operations on the chip   {:.1f} % ({:.3g} of {:.3g}; {} core products)\n",
              100.0 * offload.share(), offload.chip, offload.chip + offload.digital,
              std::accumulate(products.begin(), products.end(), std::uint64_t{0}));
}

void print_result(const RunConfig& config, const AttentionData& data, const RunResult& result) {
    const auto& features = config.attention->features;
    const auto norms = resolve_norms(features.sampler, features.norms);
    print_out("{}: {} of length {}, {} of size {}{}\n", data.name,
              count_text(data.sequences.size(), "sequence", "sequences"), data.length,
              count_text(data.heads, "head", "heads"), data.d,
              config.attention->source.causal ? ", causal" : "");
    print_out("{} directions by {}{}, {} form: {} features\n", result.sizes.m, to_string(features.sampler),
              norms == Norms::auto_ ? "" : fmt::format(" with {} norms", to_string(norms)),
              to_string(features.form), result.sizes.features);
    if (result.chip) print_out("{}\n", chip_text(*result.chip));
    if (data.positions.size() < data.length)
        print_out("compared on {} sampled queries\n", data.positions.size());
    print_out("output error |A - A'| / |A|   {}\n", error_text(result.values.at("output_error")));
    print_out("output mean squared error     {}\n", error_text(result.values.at("output_mse")));
    print_out("  predicting 0 everywhere     {:.4g}\n", result.values.at("trivial_mse").mean);
    if (const auto matrix = result.values.find("matrix_error"); matrix != result.values.end())
        print_out("matrix error |P - P'| / |P|   {}\n", error_text(matrix->second));
    if (result.offload) print_offload(*result.offload);
    print_out("{}", unknowns_text(result));
}

void run(const AttentionArgs& args, Context& context) {
    const auto& config = args.run.config;
    if (!args.heat_map.empty()) {
        if (args.heat_map.extension() != ".svg")
            fail(ErrorCode::bad_usage,
                 fmt::format("--heat-map: {}: expected a file *.svg", args.heat_map.string()));
        check_folder(args.heat_map);
    }
    if (!args.plan.empty()) {
        if (!config.backend.is_chip())
            fail(ErrorCode::bad_usage, "--plan: expected a chip as --backend, for example hermes");
        check_plan_file(args.plan, "--plan");
    }
    const auto data = load_attention(attention_source(config));
    auto result = run_seeds("attention", config, data, context.exec);
    add_unknowns("attention", args.run, data, context.exec, result);
    if (!args.heat_map.empty()) {
        const auto picture = attention_picture(config, kHeatMapSize, context.exec);
        write_file_atomic(args.heat_map, report::heat_map_svg(report::heat_maps(picture)));
    }
    if (!args.plan.empty())
        save_model(args.plan, deployed_run(config, data, config.seeds.front(), context.exec));
    if (context.json) {
        print_out("{}\n", to_json(config, result));
        return;
    }
    print_result(config, data, result);
    if (!args.heat_map.empty()) print_out("heat maps in {}\n", args.heat_map.string());
    if (!args.plan.empty()) print_out("deployed layer in {}; 'imka run' executes it\n", args.plan.string());
}

// Adds another name for a setting.
void add_alias(CLI::App& verb, RunArgs& args, const std::string& flag, const std::string& name) {
    const auto shown = flag_of(name);
    verb.add_option_function<std::string>(
            flag, [&args, name](const std::string& text) { args.given.emplace_back(name, text); },
            "Same as " + shown)
        ->type_name(verb.get_option(shown)->get_type_name())
        ->excludes(shown);
}

}  // namespace

void add_attention(CLI::App& root, Context& context) {
    auto args = std::make_shared<AttentionArgs>();
    auto* verb =
        add_verb(root, "attention", "Measure the error of kernelised attention against exact attention",
                 {"imka attention --length 4096 --head-dim 16 --n-directions 64 --norms sqrt --seeds 0..14",
                  "imka attention --dataset text --sampler sorf --backend hermes --heat-map maps.svg",
                  "imka attention --input qkv.npy --form relu --n-directions 128 --json",
                  "imka attention --length 1000000 --head-dim 16 --query-rows 256",
                  "imka attention --length 65536 --heads 8 --n-directions 256 --device cuda"});
    add_common_options(*verb, context);
    add_device_option(*verb, "Where attention is computed and chips are emulated", context);
    auto& run_args = args->run;
    add_config_options(*verb, run_args);
    add_field_options(*verb, fields(run_args.config),
                      {"dataset",
                       "length",
                       "head_dim",
                       "heads",
                       "sequences",
                       "causal",
                       "form",
                       "sampler",
                       "norms",
                       "n_directions",
                       "truncation",
                       "kernel_epsilon",
                       "feature_redraw_interval",
                       "query_rows",
                       "matrix_rows",
                       "published_slips",
                       "protocol",
                       "split_seed",
                       "backend",
                       "seeds"},
                      run_args.given);
    add_seed_option(*verb, run_args);
    add_alias(*verb, run_args, "--input", "dataset");
    add_alias(*verb, run_args, "--nb-features", "n_directions");
    add_chip_options(*verb, run_args, ChipUse::project);
    add_draws_option(*verb, run_args);
    verb->add_option(
            "--heat-map", args->heat_map,
            "Write pictures of the attention matrices to this file (SVG): exact, in FP32 and, with a chip "
            "as backend, on the chip")
        ->type_name("FILE.svg");
    verb->add_option("--plan", args->plan,
                     "Write the layer of the first seed as a deployed model: 'imka run FILE --input qkv.npz' "
                     "executes it, 'imka cost FILE' shows its cost")
        ->type_name("FILE.plan");
    verb->callback([args, &context] {
        finish_run_args(args->run);
        run(*args, context);
    });
}

}  // namespace imka::app
