// imka features: maps a file through z(x), streaming; lists kernels and samplers.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/experiment/file_map.hpp"
#include "imka/io/disk_space.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct FeatureArgs {
    RunArgs run;
    std::filesystem::path input;
    std::filesystem::path output;
    std::filesystem::path save_omega;
    bool list = false;
    bool standardize = false;
};

std::string features_text(Functions functions) {
    switch (functions) {
        case Functions::cos_sin:
            return "[cos u, sin u] / sqrt(m)";
        case Functions::step:
            return "sqrt(2/m) Θ(u)";
        case Functions::relu:
            return "sqrt(2/m) Θ(u) u";
        case Functions::relu2:
            return "sqrt(2/m) Θ(u) u²";
        case Functions::exp_pm:
            return "exp(-|x'|²/2) [exp u, exp -u] / sqrt(2m), x' = d^(-1/4) x";
    }
    return "";
}

std::vector<Combination> all_combinations() {
    std::vector<Combination> rows;
    for (const auto& k : kernel_registry()) {
        for (const auto s : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
            if (s == Sampler::rff) {
                rows.push_back(combination(k.kernel, s, Norms::auto_));
                continue;
            }
            for (const auto n : {Norms::chi, Norms::sqrt}) rows.push_back(combination(k.kernel, s, n));
        }
    }
    return rows;
}

void print_list(const Context& context) {
    Json list = Json::array();
    for (const auto& c : all_combinations()) {
        const auto& k = kernel_info(c.kernel);
        list.push_back({{"kernel", to_string(c.kernel)},
                        {"kernel_formula", k.formula},
                        {"law", k.law_text},
                        {"features", features_text(k.feature_law(1.0, 1).functions)},
                        {"sampler", to_string(c.sampler)},
                        {"norms", c.sampler == Sampler::rff ? "" : to_string(c.norms)},
                        {"omega", c.formula},
                        {"bias", to_string(c.bias)},
                        {"reason", c.reason}});
    }
    if (context.json) {
        print_out("{}\n", Json{{"combinations", list}}.dump());
        return;
    }
    TextTable kernels = {{"kernel", "k(x, y)", "law of the directions ω", "features of u = ωᵀx"}};
    for (const auto& k : kernel_registry())
        kernels.push_back({std::string(to_string(k.kernel)), std::string(k.formula), std::string(k.law_text),
                           features_text(k.feature_law(1.0, 1).functions)});
    print_out("{}\n{}", format_table(kernels),
              format_table(table_of(list, {"kernel", "sampler", "norms", "bias", "omega", "reason"})));
}

void write_features(const FeatureArgs& args, Context& context) {
    require_device(context);
    const auto& config = args.run.config;
    auto source = resolved({.file = args.input, .options = read_options(args.run)}, context.exec);
    const auto sizes = run_sizes(config, *source.options.features);
    check_disk_space(args.output, static_cast<double>(source.rows.value_or(1)) *
                                      static_cast<double>(sizes.features) * sizeof(float));
    NpyWriter out(args.output, static_cast<std::uint64_t>(sizes.features));
    if (args.standardize) {
        source.scaling = compute_standardization(source, context.exec);
    } else if (source.options.missing == Missing::mean) {
        source.fill = compute_standardization(source, context.exec).mean;
    }
    const auto recipe = file_recipe(config, source, context.exec);
    const auto omega = sample(recipe.omega, context.exec);
    if (!args.save_omega.empty()) write_npy(args.save_omega, omega.view());
    const auto [map, chip, seed] =
        file_map({.config = config, .recipe = recipe, .omega = omega, .rows = source}, context.exec);
    const auto rows = map_file({&map, seed}, source, context.exec, out);
    out.commit();
    if (context.json) {
        Json j = {{"input", args.input.string()},
                  {"output", args.output.string()},
                  {"rows", rows},
                  {"d", sizes.d},
                  {"m", sizes.m},
                  {"D", sizes.features},
                  {"kernel", to_string(config.features.kernel)},
                  {"sampler", to_string(config.features.sampler)},
                  {"seed", config.seeds.front()},
                  {"backend", config.backend.name}};
        if (chip) j["chip"] = Json::parse(to_json(*chip));
        print_out("{}\n", j.dump());
        return;
    }
    print_out("{} rows of {} features written to {} (d = {}, m = {})\n", rows, sizes.features,
              args.output.string(), sizes.d, sizes.m);
    if (chip) print_out("{}\n", chip_text(*chip));
}

void check_args(const FeatureArgs& args) {
    if (args.input.empty() || args.output.empty()) {
        fail(ErrorCode::bad_usage, "expected --input FILE and --output FILE.npy, or --list");
    }
    if (args.run.config.seeds.size() != 1)
        fail(ErrorCode::bad_usage, "expected exactly one seed: use --seed");
    if (args.run.config.protocol != Protocol::default_) {
        fail(ErrorCode::bad_usage, "--protocol measured needs a data set, not a file");
    }
}

}  // namespace

void add_features(CLI::App& root, Context& context) {
    auto args = std::make_shared<FeatureArgs>();
    auto* verb = add_verb(
        root, "features", "Map the rows of a file to random features, in constant memory",
        {"imka features --list",
         "imka features --input train.libsvm.xz --output z.npy --kernel rbf --gamma 0.05 --n-components 1024",
         "imka features --input x.npy --output z.npy --kernel arccos1 --sampler orf --log-ratio 4 --seed 7",
         "imka features --input x.npy --output z.npy --n-components 1024 --backend hermes --at 1min",
         "imka features --input x.npy --output z.npy --n-components 4096 --device cuda"});
    add_common_options(*verb, context);
    add_device_option(*verb, "Where features are computed and chips are emulated", context);
    add_feature_options(*verb, args->run);
    add_chip_options(*verb, args->run, ChipUse::project);
    add_file_options(*verb, args->run);
    add_input_options(*verb, args->run);
    verb->add_option("--input", args->input,
                     "File to read: LIBSVM, ARFF, CSV or NPY, plain or compressed. A pipe that is read "
                     "several times is "
                     "copied to the temporary folder (TMPDIR)")
        ->check(CLI::ExistingFile);
    verb->add_option("--output", args->output, "File to write: NPY, float32");
    verb->add_option("--save-omega", args->save_omega,
                     "Also write the matrix Ω of directions to this file (NPY)");
    verb->add_flag(
        "--standardize", args->standardize,
        "First standardise columns to mean 0 and standard deviation 1 (an extra pass over the file)");
    verb->add_flag("--list", args->list, "List every kernel and sampler: formula, distribution, norms, bias");
    verb->callback([args, &context] {
        if (args->list) {
            print_list(context);
            return;
        }
        finish_run_args(args->run);
        check_args(*args);
        write_features(*args, context);
    });
}

}  // namespace imka::app
