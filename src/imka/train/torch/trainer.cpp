// The loop of training: steps, validations, checkpoints, log.
#include "imka/train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/train/torch/steps.hpp"
#include "imka/train/torch/tensors.hpp"

namespace imka {
namespace {

using torch::Tensor;

constexpr std::int64_t kLogEvery = TrainingSteps::kHistory;  // steps between two readings of the loss
constexpr double kSecondsPerCheckpoint = 60.0;               // at most, between two

class Clock {
public:
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Score {
    double loss = 0.0;
    double accuracy = 0.0;
};

// The model of the output folder, or a new one.
Performer start_of(const TrainRecipe& recipe, const TrainOptions& options) {
    const auto last = options.output / "last.safetensors";
    const std::string task(to_string(recipe.task));
    if (!options.output.empty() && std::filesystem::exists(last)) {
        auto model = load_performer(last);
        check_same_recipe(model, recipe);
        return model;
    }
    auto model = initial_performer(recipe.model, task, recipe.train.seed);
    if (options.from.empty()) return model;
    auto from = load_performer(options.from);
    if (from.task != task)
        fail(ErrorCode::bad_data,
             fmt::format("{}: a model for the task {}, not {}", options.from.string(), from.task, task));
    for (const auto& s : parameter_shapes(recipe.model)) {
        const auto found = from.weights.find(s.name);
        if (found == from.weights.end() || found->second.rows() != s.rows || found->second.cols() != s.cols)
            fail(ErrorCode::bad_data,
                 fmt::format("{}: its tensor '{}' does not fit the settings", options.from.string(), s.name));
    }
    model.weights = std::move(from.weights);
    model.input_ranges = std::move(from.input_ranges);
    return model;
}

class Training {
public:
    Training(const TrainRecipe& recipe, const TrainOptions& options, const Exec& exec)
        : recipe_(recipe),
          options_(options),
          exec_(exec),
          device_(torch_device(exec.device)),
          model_(start_of(recipe, options)),
          train_data_(load_lra(recipe.task, LraPart::train, options.source, without_progress(exec))),
          steps_(recipe, model_, train_data_, device_) {
        resume();
        load_validation();
    }

    TrainResult run() {
        if (done()) return {.progress = progress_, .origin = train_data_.origin};
        begin_files();
        if (exec_.progress)
            exec_.progress->start("training", static_cast<std::uint64_t>(recipe_.train.steps),
                                  static_cast<std::uint64_t>(progress_.step));
        while (!done()) {
            take_step();
            if (progress_.step % kLogEvery == 0) log_steps();
            if (progress_.step % recipe_.train.validate_every == 0 || progress_.step == recipe_.train.steps)
                validate();
            if (stop_requested()) break;
            if (since_save_.seconds() > kSecondsPerCheckpoint) {
                recent();  // fails rather than replace a good checkpoint with a bad one
                save_last();
            }
        }
        log_steps();
        progress_.finished = done();
        save_last();
        if (exec_.progress) exec_.progress->finish();
        check_cancelled(exec_);
        return {.progress = progress_, .loss = last_loss_, .origin = train_data_.origin};
    }

    // Runs some steps without writing files, to check that they fit in memory. One step is not enough:
    // gradients and recorded GPU work are allocated later.
    void try_steps() {
        constexpr std::int64_t kTrialSteps = 5;
        for (std::int64_t step = 0; step < kTrialSteps; ++step) steps_.take(step);
        steps_.history();
    }

private:
    bool done() const {
        return progress_.step >= recipe_.train.steps ||
               (recipe_.train.patience > 0 && progress_.since_best >= recipe_.train.patience);
    }
    bool stop_requested() const {
        if (exec_.cancel && exec_.cancel->load()) return true;
        return options_.minutes > 0.0 && clock_.seconds() > 60.0 * options_.minutes;
    }

    void resume() {
        if (model_.training.empty()) return;
        progress_ = progress_of(model_);
        seconds_before_ = progress_.seconds;
        saved_step_ = logged_step_ = progress_.step;
        if (done()) return;
        progress_.finished = false;
        const auto restore = [&](const char* name, Tensor& to) {
            const auto found = model_.state.find(name);
            if (found == model_.state.end() ||
                found->second.values().size() != static_cast<std::size_t>(to.numel()))
                fail(ErrorCode::bad_data, fmt::format("{}: no optimiser state to resume from",
                                                      (options_.output / "last.safetensors").string()));
            to.copy_(to_tensor(found->second.view()).view(-1));
        };
        restore("mean", steps_.optimiser().mean);
        restore("square", steps_.optimiser().square);
        if (steps_.optimiser().average.defined()) restore("average", steps_.optimiser().average);
    }

    void load_validation() {
        auto source = options_.source;
        if (recipe_.train.validation_examples > 0)
            source.examples = static_cast<std::size_t>(recipe_.train.validation_examples);
        valid_.emplace(load_lra(recipe_.task, LraPart::valid, source, without_progress(exec_)), device_);
        if (recipe_.train.test_new_omega)
            test_.emplace(load_lra(recipe_.task, LraPart::test, source, without_progress(exec_)), device_);
    }

    void begin_files() {
        std::filesystem::create_directories(options_.output);
        write_file_atomic(options_.output / "recipe.yaml", recipe_yaml(recipe_));
        log_ = log_until(options_.output / "log.jsonl", progress_.step);
        write_file_atomic(options_.output / "log.jsonl", log_);
    }

    void take_step() {
        steps_.take(progress_.step);
        ++progress_.step;
        if (exec_.progress) exec_.progress->update(static_cast<std::uint64_t>(progress_.step));
    }

    // Fails on a value that is not finite, so that nothing is saved after it.
    void check_finite(double value, std::string_view what) const {
        if (!std::isfinite(value))
            fail(ErrorCode::numeric, fmt::format("the {} is {}; the latest checkpoint is from step {}. A "
                                                 "smaller lr or clip_norm may help",
                                                 what, value, saved_step_));
    }

    // Mean over the steps since the last line of the log. Waits for the device.
    Score recent() const {
        const auto values = steps_.history();
        const auto count = static_cast<double>(progress_.step - logged_step_);
        Score mean;
        for (auto step = logged_step_; step < progress_.step; ++step) {
            const auto row = values.view().row(static_cast<std::size_t>(step % kLogEvery));
            check_finite(row[0], fmt::format("loss of step {}", step));
            mean.loss += row[0] / count;
            mean.accuracy += row[1] / count;
        }
        return mean;
    }

    void log_steps() {
        const auto count = progress_.step - logged_step_;
        if (count == 0) return;
        const auto mean = recent();
        last_loss_ = mean.loss;
        const double tokens =
            static_cast<double>(count * steps_.batch_size() * recipe_.model.documents * recipe_.model.length);
        event({.kind = "train",
               .step = progress_.step,
               .loss = mean.loss,
               .accuracy = mean.accuracy,
               .lr = learning_rate(recipe_.train, progress_.step - 1),
               .tokens_per_second = tokens / std::max(since_log_.seconds(), 1e-9)});
        logged_step_ = progress_.step;
        since_log_ = {};
    }

    void event(TrainingEvent e) {
        e.seconds = seconds_before_ + clock_.seconds();
        progress_.seconds = e.seconds;
        log_ += event_json(e) + "\n";
        if (options_.on_event) options_.on_event(e);
    }

    Score score(const ResidentData& data) {
        const torch::NoGradGuard guard;
        auto sums = torch::zeros({2}, device_);
        const auto all = torch::arange(data.size(), torch::TensorOptions(torch::kLong).device(device_));
        for (const auto& indices : all.split(steps_.batch_size())) {
            const auto batch = data.batch(indices);
            const auto logits = steps_.network().forward(batch, false);
            const auto loss = torch::nn::functional::cross_entropy(
                logits, batch.labels,
                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
            sums += torch::stack({loss, (logits.argmax(1) == batch.labels).to(torch::kFloat).sum()});
        }
        const auto m = to_matrix(sums);
        const auto n = static_cast<double>(data.size());
        return {m(0, 0) / n, m(0, 1) / n};
    }

    // Tests with directions that this training never uses, drawn anew each time.
    void test_new_omega() {
        for (const bool poisson : {false, true}) {
            std::vector<Matrix<float>> omega;
            for (std::int64_t i = 0; i < recipe_.model.layers; ++i) {
                const OmegaDraw draw{.seed = ~recipe_.train.seed,
                                     .layer = static_cast<std::uint64_t>(i),
                                     .redraws = static_cast<std::uint64_t>(progress_.step)};
                omega.push_back(poisson ? poisson_omega(recipe_.model, draw)
                                        : draw_omega(recipe_.model, draw));
            }
            steps_.network().set_omega(omega);
            const auto s = score(*test_);
            event({.kind = poisson ? "test_poisson" : "test",
                   .step = progress_.step,
                   .loss = s.loss,
                   .accuracy = s.accuracy});
        }
        steps_.network().set_omega(steps_.omega());
    }

    void validate() {
        log_steps();
        exchange_average();
        const auto s = score(*valid_);
        check_finite(s.loss, fmt::format("validation loss of step {}", progress_.step));
        event({.kind = "valid", .step = progress_.step, .loss = s.loss, .accuracy = s.accuracy});
        if (test_) test_new_omega();
        since_log_ = {};
        ++progress_.since_best;
        if (s.accuracy > progress_.best_accuracy) {
            progress_.best_accuracy = s.accuracy;
            progress_.best_step = progress_.step;
            progress_.since_best = 0;
            save(options_.output / "best.safetensors", false);
        }
        exchange_average();
        save_last();
    }

    // Swaps the weights and their mean.
    void exchange_average() {
        auto& average = steps_.optimiser().average;
        if (average.defined()) steps_.network().parameters().exchange(average);
    }

    void save(const std::filesystem::path& path, bool with_state) {
        steps_.network().parameters().store(model_);
        for (const auto& [name, weights] : model_.weights) {
            for (const float w : weights.values())
                check_finite(w, fmt::format("tensor {} after step {}", name, progress_.step));
        }
        model_.omega = steps_.omega();
        model_.training = training_json(progress_, recipe_, device_name(device_));
        model_.state.clear();
        if (with_state) {
            model_.state["mean"] = to_matrix(steps_.optimiser().mean);
            model_.state["square"] = to_matrix(steps_.optimiser().square);
            if (steps_.optimiser().average.defined())
                model_.state["average"] = to_matrix(steps_.optimiser().average);
        }
        save_performer(path, model_);
    }

    void save_last() {
        save(options_.output / "last.safetensors", !progress_.finished);
        write_file_atomic(options_.output / "log.jsonl", log_);
        saved_step_ = progress_.step;
        since_save_ = {};
    }

    TrainRecipe recipe_;
    TrainOptions options_;
    Exec exec_;
    torch::Device device_;
    Performer model_;
    LraData train_data_;
    TrainingSteps steps_;
    std::optional<ResidentData> valid_, test_;
    TrainingProgress progress_;
    double seconds_before_ = 0.0;
    double last_loss_ = 0.0;
    std::int64_t saved_step_ = 0;
    std::int64_t logged_step_ = 0;  // steps before this one are in the log
    std::string log_;
    Clock clock_, since_log_, since_save_;
};

bool is_out_of_memory(const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    return text.find("out of memory") != std::string::npos ||
           text.find("allocate memory") != std::string::npos;
}

// For errors other than lack of memory. Of CUDA errors only the first line is kept; the others are hints for
// programmers.
[[noreturn]] void fail_as(const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (text.starts_with("CUDA error"))
        fail(ErrorCode::missing_part,
             fmt::format("LibTorch: {}; run the same command again to resume from the last checkpoint",
                         text.substr(0, text.find('\n'))));
    fail(ErrorCode::numeric, "LibTorch: " + text);
}

// The largest half, quarter, ... of the batch that fits in memory; 0: not even one example.
std::int64_t batch_that_fits(TrainRecipe recipe, const TrainOptions& options, const Exec& exec) {
    for (recipe.train.batch /= 2; recipe.train.batch > 0; recipe.train.batch /= 2) {
        try {
            Training(recipe, options, without_progress(exec)).try_steps();
            return recipe.train.batch;
        } catch (const c10::Error& e) {
            if (!is_out_of_memory(e)) return 0;
        }
    }
    return 0;
}

[[noreturn]] void fail_out_of_memory(const TrainRecipe& recipe, const TrainOptions& options,
                                     const Exec& exec) {
    auto fresh = options;
    fresh.output.clear();  // a checkpoint there was made with the batch that does not fit
    const auto fits = batch_that_fits(recipe, fresh, exec);
    fail(ErrorCode::bad_config, fmt::format("not enough memory for a batch of {}; {}", recipe.train.batch,
                                            fits > 0 ? fmt::format("{} fits: --set batch={}", fits, fits)
                                                     : "not even one example fits"));
}

}  // namespace

TrainResult train(const TrainRecipe& recipe, const TrainOptions& options, const Exec& exec) {
    validate(recipe);
    if (exec.threads > 0) torch::set_num_threads(exec.threads);
    at::globalContext().setAllowTF32CuBLAS(recipe.train.precision != TrainPrecision::fp32);
    try {
        return Training(recipe, options, exec).run();
    } catch (const c10::Error& e) {
        if (!is_out_of_memory(e)) fail_as(e);
    }
    fail_out_of_memory(recipe, options, exec);  // after the training has freed its memory
}

}  // namespace imka
