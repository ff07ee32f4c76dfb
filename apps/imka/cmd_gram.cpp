// imka gram: approximation error of the Gram matrix.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app.hpp"
#include "imka/experiment/kinds.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

void run(const RunArgs& args, Context& context) {
    require_device(context);
    const auto& config = args.config;
    const auto data = load_dataset(config.dataset, load_options(config, context.data_dir), context.exec);
    auto result = run_seeds("gram", config, data, context.exec);
    add_unknowns("gram", args, data, context.exec, result);
    if (context.json) {
        print_out("{}\n", to_json(config, result));
        return;
    }
    print_out("{}, {} kernel, {} directions in {} dimensions by {}: {} features\n", data.name,
              to_string(config.features.kernel), result.sizes.m, result.sizes.d,
              to_string(config.features.sampler), result.sizes.features);
    if (result.chip) print_out("{}\n", chip_text(*result.chip));
    print_out("Gram error |K - ZZ'| / |K| on {} rows: {}\n",
              std::min<std::size_t>(data.test.x.rows(), static_cast<std::size_t>(config.gram_rows)),
              summary_text(result.values.at("gram_error"), 1.0, ""));
    print_out("{}", unknowns_text(result));
}

// Rejects settings of fits, because a Gram error needs no fit.
void refuse_fit_settings(const RunArgs& args) {
    auto used = setting_names();
    for (const auto name : run_kind("gram").verb.no_flags) used.erase(std::string(name));
    refuse_other_settings(args, used, "on a Gram error");
}

}  // namespace

void add_gram(CLI::App& root, Context& context) {
    auto args = std::make_shared<RunArgs>();
    auto* verb = add_verb(
        root, "gram", "Measure the approximation error of the Gram matrix",
        {"imka gram --dataset twonorm --kernel arccos1 --sampler orf --log-ratio 4 --seeds 0..9",
         "imka gram --dataset skin --kernel rbf --sampler sorf --protocol measured --log-ratio 3 --json",
         "imka gram --dataset twonorm --backend hermes --at 1h --compensation column",
         "imka gram --dataset twonorm --backend hermes --seeds 0..4 --chip-draws 20"});
    add_common_options(*verb, context);
    add_device_option(*verb, "Where features and matrices are computed and chips are emulated", context);
    add_dataset_options(*verb, *args);
    add_file_options(*verb, *args);
    add_feature_options(*verb, *args);
    add_field_options(*verb, fields(args->config), {"task"}, args->given);
    add_chip_options(*verb, *args, ChipUse::project);
    add_draws_option(*verb, *args);
    verb->callback([args, &context] {
        finish_run_args(*args);
        refuse_fit_settings(*args);
        run(*args, context);
    });
}

}  // namespace imka::app
