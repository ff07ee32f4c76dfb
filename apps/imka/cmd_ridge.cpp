// imka ridge: fits and tests a kernel ridge classifier; saves, loads, predicts.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/team.hpp"
#include "imka/experiment/file_map.hpp"
#include "imka/experiment/mpi.hpp"
#include "launch.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct RidgeArgs {
    RunArgs run;
    std::filesystem::path save;
    std::filesystem::path load;
    std::filesystem::path predict;
    std::filesystem::path output;
};

void print_result(const RunConfig& config, const RunResult& r, const Dataset& data) {
    print_out("{}: {} training rows, {} test rows, {} classes\n", data.name, data.train.y.size(),
              data.test.y.size(), data.classes.size());
    print_out("{} features of the {} kernel{}, {} directions by {}, {} protocol\n", r.sizes.features,
              to_string(config.features.kernel), r.gamma ? fmt::format(" (gamma {:.4g})", *r.gamma) : "",
              r.sizes.m, to_string(config.features.sampler), to_string(config.protocol));
    if (r.chip) print_out("{}\n", chip_text(*r.chip));
    print_out("test accuracy    {}\n", summary_text(r.values.at("accuracy"), 100.0, " %"));
    if (data.bayes_error)
        print_out("best possible    {:.2f} % (Bayes rule)\n", 100.0 * (1.0 - *data.bayes_error));
    if (const auto error = r.values.find("gram_error"); error != r.values.end())
        print_out("Gram error       {}\n", summary_text(error->second, 1.0, ""));
}

void fit_and_test(const RidgeArgs& args, Context& context) {
    const auto& config = args.run.config;
    std::optional<AtomicFile> probe;
    const bool first = context.exec.team == nullptr || context.exec.team->rank() == 0;
    if (first && !args.save.empty())
        probe.emplace(args.save);  // fail before the work if the file cannot be written
    const auto data = load_dataset(config.dataset, load_options(config, context.data_dir), context.exec);
    const auto result = run_seeds("ridge", config, data, context.exec);
    probe.reset();
    if (!first) return;
    if (!args.save.empty()) save_model(args.save, *result.model);
    if (context.json) {
        print_out("{}\n", to_json(config, result));
    } else {
        print_result(config, result, data);
        if (!args.save.empty()) {
            print_out("model of seed {} saved to {}\n", config.seeds.front(), args.save.string());
        }
    }
}

// One fit over the processes of a job; the first one prints.
void fit_and_test_together(const RidgeArgs& args, const Launch& launch, Context& context) {
    const auto team = start_mpi_team();
    context.exec.team = team.get();
    if (context.exec.threads == 0) context.exec.threads = threads_per_process(launch);
    if (team->rank() > 0) context.exec.progress = nullptr;
    try {
        fit_and_test(args, context);
    } catch (const Error& e) {
        print_error("imka: process {} of {}: {}\n", team->rank(), team->size(), e.what());
        abort_mpi_job(exit_code(e.code()));
    }
}

// Reads rows in blocks, so files can be larger than memory.
void predict_file(const RidgeArgs& args, Context& context) {
    const auto model = load_model(args.load);
    Exec quiet = context.exec;  // progress counts the rows of the file
    quiet.progress = nullptr;
    auto options = read_options(args.run);
    options.features = static_cast<std::uint32_t>(model.recipe.omega.d);
    AtomicFile out(args.output);
    RowSource source{.file = args.predict, .options = options};
    if (!model.standardization.mean.empty()) source.scaling = model.standardization;
    std::optional<ChipInfo> info;
    std::optional<RidgePredictor> chosen;
    if (args.run.config.backend.is_chip()) {
        auto placed = file_map(
            {.config = args.run.config, .recipe = model.recipe, .omega = model.omega, .rows = source}, quiet);
        info = placed.chip;
        chosen.emplace(model, std::move(placed.map), placed.seed);
    } else {
        chosen.emplace(model);
    }
    const RidgePredictor& predictor = *chosen;
    out.write(model.classes.empty() ? "prediction\n" : "class\n");
    std::uint64_t rows = 0;
    std::uint64_t labelled = 0;
    std::uint64_t right = 0;
    for_each_block(source, context.exec, [&](RowBlock& block) {
        if (model.classes.empty()) {
            Matrix<double> scores(block.x.rows(), predictor.outputs());
            predictor.scores(block.x.view(), block.first_row, quiet, scores.view());
            for (std::size_t r = 0; r < scores.rows(); ++r) {
                out.write(fmt::format("{}\n", fmt::join(scores.row(r), ",")));
            }
        } else {
            const auto y = predictor.classify(block.x.view(), block.first_row, quiet);
            for (std::size_t r = 0; r < y.size(); ++r) {
                const auto& name = model.classes[static_cast<std::size_t>(y[r])];
                out.write(name + "\n");
                labelled += block.labels[r].empty() ? 0 : 1;
                right += block.labels[r] == name ? 1 : 0;
            }
        }
        rows += block.x.rows();
    });
    out.commit();
    if (context.json) {
        nlohmann::ordered_json j = {
            {"model", args.load.string()}, {"output", args.output.string()}, {"rows", rows}};
        j["backend"] = args.run.config.backend.name;
        if (info) j["chip"] = nlohmann::ordered_json::parse(to_json(*info));
        j["accuracy"] = nullptr;
        if (labelled > 0) j["accuracy"] = static_cast<double>(right) / static_cast<double>(labelled);
        print_out("{}\n", j.dump());
        return;
    }
    print_out("{} predictions written to {}\n", rows, args.output.string());
    if (info) print_out("{}\n", chip_text(*info));
    if (labelled > 0) {
        print_out("accuracy on the {} labelled rows: {:.2f} %\n", labelled,
                  100.0 * static_cast<double>(right) / static_cast<double>(labelled));
    }
}

void check_predict_args(const RidgeArgs& args) {
    if (args.load.empty() || args.predict.empty() || args.output.empty()) {
        fail(ErrorCode::bad_usage, "prediction needs --load MODEL, --predict FILE and --output FILE");
    }
}

}  // namespace

void add_ridge(CLI::App& root, Context& context) {
    auto args = std::make_shared<RidgeArgs>();
    auto* verb = add_verb(
        root, "ridge", "Fit and test a kernel ridge classifier on random features",
        {"imka ridge --dataset ringnorm --kernel rbf --gamma 0.05 --sampler orf --log-ratio 5 --seeds 0..4",
         "imka ridge --dataset letter --n-components 2048 --save letter.imka",
         "imka ridge --dataset letter --backend hermes --at 1h --seeds 0..4",
         "mpirun -n 4 imka ridge --dataset ijcnn1 --n-components 4096",
         "imka ridge --load letter.imka --predict new.csv --output classes.csv --label-column none"});
    add_common_options(*verb, context);
    add_dataset_options(*verb, args->run);
    add_feature_options(*verb, args->run);
    add_field_options(*verb, fields(args->run.config), {"alpha", "intercept"}, args->run.given);
    add_chip_options(*verb, args->run, ChipUse::fit);
    add_file_options(*verb, args->run);
    add_input_options(*verb, args->run);
    verb->add_option("--save", args->save, "Save the model of the first seed to this file");
    verb->add_option("--load", args->load,
                     "Load this model instead of fitting one; needs --predict and --output")
        ->check(CLI::ExistingFile);
    verb->add_option("--predict", args->predict,
                     "File of rows to predict (LIBSVM, ARFF, CSV or NPY); needs --load")
        ->check(CLI::ExistingFile);
    verb->add_option("--output", args->output, "Write predictions to this file (CSV)");
    verb->callback([args, &context] {
        finish_run_args(args->run);
        if (args->load.empty() && args->predict.empty() && args->output.empty()) {
            const auto launch = current_launch();
            if (launch.size > 1) {
                fit_and_test_together(*args, launch, context);
            } else {
                fit_and_test(*args, context);
            }
        } else {
            check_predict_args(*args);
            predict_file(*args, context);
        }
    });
}

}  // namespace imka::app
