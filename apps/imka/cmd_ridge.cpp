// imka ridge: fits and tests a kernel ridge classifier or regressor; saves, loads, predicts.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/team.hpp"
#include "imka/experiment/file_map.hpp"
#include "imka/experiment/mpi.hpp"
#include "imka/io/text.hpp"
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

void print_scores(const RunResult& r, const Dataset& data) {
    if (const auto accuracy = r.values.find("accuracy"); accuracy != r.values.end()) {
        print_out("test accuracy    {}\n", summary_text(accuracy->second, 100.0, " %"));
        if (data.bayes_error)
            print_out("best possible    {:.2f} % (Bayes rule)\n", 100.0 * (1.0 - *data.bayes_error));
        return;
    }
    print_out("test R²          {}\n", summary_text(r.values.at("r2"), 1.0, ""));
    print_out("test RMSE        {}\n", summary_text(r.values.at("rmse"), 1.0, ""));
    if (data.best_r2)
        print_out("best possible    R² {:.4f}, RMSE {:.4g} (noise of the data)\n", *data.best_r2,
                  *data.noise);
}

void print_result(const RunConfig& config, const RunResult& r, const Dataset& data) {
    print_out(
        "{}: {} training rows, {} test rows, {}\n", data.name, data.train.x.rows(), data.test.x.rows(),
        config.task == Task::regression ? "regression" : fmt::format("{} classes", data.classes.size()));
    print_out("{} features of the {} kernel{}, {} directions by {}, {} protocol\n", r.sizes.features,
              to_string(config.features.kernel), r.gamma ? fmt::format(" (gamma {:.4g})", *r.gamma) : "",
              r.sizes.m, to_string(config.features.sampler), to_string(config.protocol));
    if (r.chip) print_out("{}\n", chip_text(*r.chip));
    print_scores(r, data);
    if (const auto error = r.values.find("gram_error"); error != r.values.end())
        print_out("Gram error       {}\n", summary_text(error->second, 1.0, ""));
    print_out("{}", unknowns_text(r));
}

// Suggests a penalty if the system is singular.
RunResult run_fit(const RunConfig& config, const Dataset& data, const Exec& exec) {
    try {
        return run_seeds("ridge", config, data, exec);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::numeric || config.ridge.alpha > 0.0) throw;
        fail(e.code(), fmt::format("{}; try --alpha above 0", e.what()));
    }
}

void fit_and_test(const RidgeArgs& args, Context& context) {
    require_device(context);
    const auto& config = args.run.config;
    std::optional<AtomicFile> probe;
    const bool first = context.exec.team == nullptr || context.exec.team->rank() == 0;
    if (first && !args.save.empty())
        probe.emplace(args.save);  // fail before the work if the file cannot be written
    const auto data = load_dataset(config.dataset, load_options(config, context.data_dir), context.exec);
    auto result = run_fit(config, data, context.exec);
    add_unknowns("ridge", args.run, data, context.exec, result);
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

// One fit, shared by the processes of a job; the first process prints.
void fit_and_test_together(const RidgeArgs& args, const Launch& launch, Context& context) {
    const auto team = start_mpi_team();
    context.exec.team = team.get();
    if (context.exec.threads == 0) context.exec.threads = threads_per_process(launch);
    context.exec.device = device_of_process(launch, context);
    if (team->rank() > 0) context.exec.progress = nullptr;
    try {
        fit_and_test(args, context);
    } catch (const Error& e) {
        print_error("imka: process {} of {}: {}\n", team->rank(), team->size(), e.what());
        abort_mpi_job(exit_code(e.code()));
    }
}

// Computes the predictions from the model's features, digitally or on a chip.
struct Loaded {
    RidgePredictor predictor;
    std::optional<ChipInfo> chip;
};
Loaded load_predictor(const RunConfig& config, const RidgeModel& model, const RowSource& rows,
                      const Exec& exec) {
    if (!config.backend.is_chip()) return {.predictor = RidgePredictor(model), .chip = {}};
    auto placed =
        file_map({.config = config, .recipe = model.recipe, .omega = model.omega, .rows = rows}, exec);
    return {.predictor = RidgePredictor(model, std::move(placed.map), placed.seed), .chip = placed.chip};
}

// Predictions for a file, and their scores if it has labels.
class Predictions {
public:
    Predictions(const RidgeModel& model, const RidgePredictor& predictor, const std::filesystem::path& file)
        : model_(model), predictor_(predictor), file_(file) {}

    // The lines of the output file for one block.
    std::string add(const RowBlock& block, const Exec& exec) {
        auto lines = model_.classes.empty() ? numbers(block, exec) : classes(block, exec);
        rows_ += block.x.rows();
        return lines;
    }
    std::uint64_t rows() const { return rows_; }
    std::uint64_t labelled() const { return labelled_; }
    // {"accuracy": ...} or {"r2": ..., "rmse": ...}; null without labels.
    Json scores() const {
        if (!model_.classes.empty())
            return {{"accuracy", labelled_ > 0
                                     ? Json(static_cast<double>(right_) / static_cast<double>(labelled_))
                                     : Json()}};
        return {{"r2", errors_.spread > 0.0 ? Json(errors_.r2()) : Json()},
                {"rmse", errors_.rows > 0 ? Json(errors_.rmse()) : Json()}};
    }

private:
    std::string classes(const RowBlock& block, const Exec& exec) {
        std::string lines;
        const auto y = predictor_.classify(block.x.view(), block.first_row, exec);
        for (std::size_t r = 0; r < y.size(); ++r) {
            const auto& name = model_.classes[static_cast<std::size_t>(y[r])];
            lines += csv_field(name) + "\n";
            labelled_ += block.labels[r].empty() ? 0 : 1;
            right_ += block.labels[r] == name ? 1 : 0;
        }
        return lines;
    }
    std::string numbers(const RowBlock& block, const Exec& exec) {
        std::string lines;
        Matrix<double> scores(block.x.rows(), predictor_.outputs());
        predictor_.scores(block.x.view(), block.first_row, exec, scores.view());
        for (std::size_t r = 0; r < scores.rows(); ++r) {
            lines += fmt::format("{}\n", fmt::join(scores.row(r), ","));
            if (!block.labels[r].empty() && scores.cols() == 1) compare(block, r, scores(r, 0));
        }
        return lines;
    }
    void compare(const RowBlock& block, std::size_t r, double prediction) {
        const auto target = parse_double(block.labels[r]);
        if (!target)
            fail(ErrorCode::bad_data,
                 fmt::format("{}: row {}: the label {} is not a number, but the model "
                             "predicts numbers; use --label-column none if the file has no labels",
                             file_.string(), block.first_row + r + 1, in_quotes(block.labels[r])));
        ++labelled_;
        errors_.add(*target, prediction);
    }

    const RidgeModel& model_;
    const RidgePredictor& predictor_;
    const std::filesystem::path& file_;
    std::uint64_t rows_ = 0;
    std::uint64_t labelled_ = 0;
    std::uint64_t right_ = 0;
    SquaredErrors errors_;
};

void print_predictions(const RidgeArgs& args, const Predictions& done, const std::optional<ChipInfo>& chip,
                       const Context& context) {
    const auto scores = done.scores();
    if (context.json) {
        Json j = {{"model", args.load.string()}, {"output", args.output.string()}, {"rows", done.rows()}};
        j["backend"] = args.run.config.backend.name;
        if (chip) j["chip"] = Json::parse(to_json(*chip));
        j.update(scores);
        print_out("{}\n", j.dump());
        return;
    }
    print_out("{} predictions written to {}\n", done.rows(), args.output.string());
    if (chip) print_out("{}\n", chip_text(*chip));
    if (done.labelled() == 0) return;
    if (scores.contains("accuracy")) {
        print_out("accuracy on the {} labelled rows: {:.2f} %\n", done.labelled(),
                  100.0 * scores["accuracy"].get<double>());
    } else {
        print_out("RMSE on the {} labelled rows: {:.4g}", done.labelled(), scores["rmse"].get<double>());
        if (!scores["r2"].is_null()) print_out(", R² {:.4f}", scores["r2"].get<double>());
        print_out("\n");
    }
}

// Reads rows in blocks, so files can be larger than memory.
void predict_file(const RidgeArgs& args, Context& context) {
    require_device(context);
    const auto model = load_model(args.load);
    Exec quiet = context.exec;  // progress counts the rows of the file
    quiet.progress = nullptr;
    auto options = read_options(args.run);
    options.features = static_cast<std::uint32_t>(model.recipe.omega.d);
    AtomicFile out(args.output);
    RowSource source{.file = args.predict, .options = options};
    if (!model.standardization.mean.empty()) source.scaling = model.standardization;
    const auto loaded = load_predictor(args.run.config, model, source, quiet);
    Predictions predictions(model, loaded.predictor, args.predict);
    out.write(model.classes.empty() ? "prediction\n" : "class\n");
    for_each_block(source, context.exec, [&](RowBlock& block) { out.write(predictions.add(block, quiet)); });
    out.commit();
    print_predictions(args, predictions, loaded.chip, context);
}

// Settings of a fit have no effect on a loaded model.
void check_predict_args(const RidgeArgs& args) {
    if (args.load.empty() || args.predict.empty() || args.output.empty())
        fail(ErrorCode::bad_usage, "prediction needs --load MODEL, --predict FILE and --output FILE");
    if (args.run.chip_draws > 0)
        fail(ErrorCode::bad_usage,
             "--chip-draws has no effect with --load: predictions have no spread over seeds");
    if (!args.save.empty()) fail(ErrorCode::bad_usage, "--save has no effect with --load: nothing is fitted");
    std::set<std::string> used = {"format", "label_column", "backend"};
    auto chip = args.run.config.chip;
    if (args.run.config.backend.is_chip()) {
        used.insert("seeds");
        for (const auto& f : fields(chip)) {
            if (!f.name.starts_with("fit_")) used.insert(f.name);
        }
    }
    refuse_other_settings(args.run, used, "with --load");
}

}  // namespace

void add_ridge(CLI::App& root, Context& context) {
    auto args = std::make_shared<RidgeArgs>();
    auto* verb = add_verb(
        root, "ridge", "Fit and test a kernel ridge classifier or regressor on random features",
        {"imka ridge --dataset ringnorm --kernel rbf --gamma 0.05 --sampler orf --log-ratio 5 --seeds 0..4",
         "imka ridge --dataset letter --n-components 2048 --save letter.imka",
         "imka ridge --dataset letter --backend hermes --at 1h --seeds 0..4",
         "imka ridge --dataset ijcnn1 --n-components 4096 --device cuda",
         "imka ridge --task regression --dataset train.csv:test.csv --label-column price --save price.imka",
         "mpirun -n 4 imka ridge --dataset ijcnn1 --n-components 4096",
         "imka ridge --load letter.imka --predict new.csv --output classes.csv --label-column none"});
    add_common_options(*verb, context);
    add_device_option(
        *verb, "Where features, sums, systems and predictions are computed and chips are emulated", context);
    add_dataset_options(*verb, args->run);
    add_feature_options(*verb, args->run);
    add_field_options(*verb, fields(args->run.config), {"task", "alpha", "intercept"}, args->run.given);
    add_chip_options(*verb, args->run, ChipUse::fit);
    add_draws_option(*verb, args->run);
    add_file_options(*verb, args->run);
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
