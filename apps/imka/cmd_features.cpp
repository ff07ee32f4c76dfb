// imka features: maps a file through z(x), streaming; lists kernels and samplers.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/data/standardize.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/io/npy.hpp"
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
    const auto rows = all_combinations();
    if (context.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const auto& c : rows) {
            const auto& k = kernel_row(c.kernel);
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
        fmt::print("{}\n", nlohmann::ordered_json{{"combinations", list}}.dump());
        return;
    }
    std::vector<std::vector<std::string>> kernels = {
        {"kernel", "k(x, y)", "law of the directions ω", "features of u = ωᵀx"}};
    for (const auto& k : kernel_registry()) {
        kernels.push_back({std::string(to_string(k.kernel)), std::string(k.formula), std::string(k.law_text),
                           features_text(k.feature_law(1.0, 1).functions)});
    }
    std::vector<std::vector<std::string>> table = {
        {"kernel", "sampler", "norms", "estimate", "block of directions", "why"}};
    for (const auto& c : rows) {
        table.push_back({std::string(to_string(c.kernel)), std::string(to_string(c.sampler)),
                         c.sampler == Sampler::rff ? "-" : std::string(to_string(c.norms)),
                         std::string(to_string(c.bias)), c.formula, c.reason});
    }
    fmt::print("{}\n{}", format_table(kernels), format_table(table));
}

// The number of features that a file has; LIBSVM files say so only at their end.
std::uint32_t count_features(const std::filesystem::path& path, const ReadOptions& options,
                             const Exec& exec) {
    const auto reader = open_rows(path, options);
    if (const auto known = reader->features()) return *known;
    std::uint32_t most = 0;
    Row row;
    Progress progress(exec, "first pass", 0);
    for (std::uint64_t n = 1; reader->next(row); ++n) {
        if (!row.indices.empty()) most = std::max(most, row.indices.back() + 1);
        if (n % 4096 == 0) {
            check_cancelled(exec);
            progress.update(n);
        }
    }
    if (most == 0) fail(ErrorCode::bad_data, fmt::format("{}: holds no feature", path.string()));
    return most;
}

// Mean and deviation in one pass over the file (Welford), in the order of the rows.
Standardization stream_standardization(const std::filesystem::path& path, const ReadOptions& options,
                                       const Exec& exec) {
    std::vector<double> mean;
    std::vector<double> squares;
    double n = 0.0;
    for_each_input_block(path, options, exec, [&](InputBlock& block) {
        mean.resize(block.x.cols());
        squares.resize(block.x.cols());
        for (std::size_t r = 0; r < block.x.rows(); ++r) {
            n += 1.0;
            for (std::size_t c = 0; c < mean.size(); ++c) {
                const double delta = block.x(r, c) - mean[c];
                mean[c] += delta / n;
                squares[c] += delta * (block.x(r, c) - mean[c]);
            }
        }
    });
    for (auto& s : squares) s = s > 0.0 ? std::sqrt(s / (n - 1.0)) : 1.0;
    return {.mean = std::move(mean), .std = std::move(squares)};
}

void map_file(const FeatureArgs& args, Context& context) {
    const auto& config = args.run.config;
    auto options = read_options(args.run);
    options.features = count_features(args.input, options, context.exec);
    if (!config.gamma.value && kernel_row(config.kernel).uses_gamma) {
        fail(ErrorCode::bad_config, "gamma 'scale' needs a data set in memory; give a number");
    }
    const auto sizes = run_sizes(config, *options.features);
    const FeatureRecipe recipe{.omega = {.kernel = config.kernel,
                                         .gamma = config.gamma.value.value_or(1.0),
                                         .sampler = config.sampler,
                                         .norms = config.norms,
                                         .truncation = resolve_truncation(config),
                                         .d = sizes.d,
                                         .m = sizes.m,
                                         .seed = config.seeds.front()},
                               .form = config.form};
    validate(recipe);
    NpyWriter out(args.output, static_cast<std::uint64_t>(sizes.features));
    auto omega = sample(recipe.omega, context.exec);
    if (!args.save_omega.empty()) write_npy(args.save_omega, std::as_const(omega).view());
    Standardization scaling;
    if (args.standardize) scaling = stream_standardization(args.input, options, context.exec);
    const std::function<void(InputBlock&)> prepare = [&](InputBlock& block) {
        if (args.standardize) apply_standardization(scaling, block.x.view(), context.exec);
    };
    const ChipInput input{.path = args.input, .options = options, .prepare = prepare};
    auto [map, chip] =
        config.backend.is_chip()
            ? map_on_chip(config, recipe, omega, input, context.exec)
            : RunMap{
                  .map = FeatureMap(recipe, choose_projector(recipe.omega, std::move(omega), context.exec)),
                  .chip = {}};
    std::uint64_t rows = 0;
    for_each_input_block(args.input, options, context.exec, [&, &map = map](InputBlock& block) {
        prepare(block);
        Matrix<float> z(block.x.rows(), map.features());
        map.transform(block.x.view(), block.first_row, context.exec, z.view());
        out.append(std::as_const(z).view());
        rows += z.rows();
    });
    out.commit();
    if (context.json) {
        nlohmann::ordered_json j = {{"input", args.input.string()},
                                    {"output", args.output.string()},
                                    {"rows", rows},
                                    {"d", sizes.d},
                                    {"m", sizes.m},
                                    {"D", sizes.features},
                                    {"kernel", to_string(config.kernel)},
                                    {"sampler", to_string(config.sampler)},
                                    {"seed", config.seeds.front()},
                                    {"backend", config.backend.name}};
        if (chip) j["chip"] = nlohmann::ordered_json::parse(to_json(*chip));
        fmt::print("{}\n", j.dump());
        return;
    }
    fmt::print("{} rows of {} features written to {} (d = {}, m = {})\n", rows, sizes.features,
               args.output.string(), sizes.d, sizes.m);
    if (chip) fmt::print("{}\n", chip_text(*chip));
}

void check_args(const FeatureArgs& args) {
    if (args.input.empty() || args.output.empty()) {
        fail(ErrorCode::bad_usage, "--input FILE and --output FILE.npy are needed (or --list)");
    }
    if (args.run.config.seeds.size() != 1) fail(ErrorCode::bad_usage, "one seed makes one file; give --seed");
    if (args.run.config.protocol != Protocol::default_) {
        fail(ErrorCode::bad_usage, "a file has no measured protocol; leave --protocol out");
    }
}

}  // namespace

void add_features(CLI::App& root, Context& context) {
    auto args = std::make_shared<FeatureArgs>();
    auto* verb = add_verb(
        root, "features", "Map a file through random features, in memory that does not grow with it",
        {"imka features --list",
         "imka features --input train.libsvm.xz --output z.npy --kernel rbf --gamma 0.05 --n-components 1024",
         "imka features --input x.npy --output z.npy --kernel arccos1 --sampler orf --log-ratio 4 --seed 7",
         "imka features --input x.npy --output z.npy --n-components 1024 --backend hermes --read-seconds "
         "60"});
    add_common_options(*verb, context);
    add_feature_options(*verb, args->run);
    add_chip_options(*verb, args->run, ChipUse::project);
    add_file_options(*verb, args->run);
    add_input_options(*verb, args->run);
    verb->add_option("--input", args->input, "LIBSVM, ARFF, CSV or NPY file, plain or compressed")
        ->check(CLI::ExistingFile);
    verb->add_option("--output", args->output, "NPY file, float32");
    verb->add_option("--save-omega", args->save_omega, "Also write the matrix of directions (NPY)");
    verb->add_flag("--standardize", args->standardize,
                   "Scale every column to mean 0 and deviation 1 first (a further pass)");
    verb->add_flag("--list", args->list, "Show every kernel and sampler: formula, law, norms, bias");
    verb->callback([args, &context] {
        if (args->list) {
            print_list(context);
            return;
        }
        finish_run_args(args->run);
        check_args(*args);
        map_file(*args, context);
    });
}

}  // namespace imka::app
