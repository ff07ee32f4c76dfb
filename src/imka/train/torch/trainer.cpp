// The loop of training: steps, validations, checkpoints, log.
#include "imka/train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/train/torch/batches.hpp"
#include "imka/train/torch/captured.hpp"
#include "imka/train/torch/network.hpp"
#include "imka/train/torch/tensors.hpp"

namespace imka {
namespace {

using torch::Tensor;

constexpr std::int64_t kLogEvery = 50;          // steps between two readings of the loss
constexpr double kSecondsPerCheckpoint = 60.0;  // at most, between two

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

// What an output folder holds, or a new model.
Performer start_of(const TrainRecipe& recipe, const TrainOptions& options) {
    const auto last = options.output / "last.safetensors";
    const std::string task(to_string(recipe.task));
    if (std::filesystem::exists(last)) {
        auto model = load_performer(last);
        check_same_recipe(model, recipe);
        return model;
    }
    auto model = initial_performer(recipe.model, task, recipe.train.seed);
    if (options.from.empty()) return model;
    auto from = load_performer(options.from);
    if (from.task != task)
        fail(ErrorCode::bad_data,
             fmt::format("{}: a model of the task {}, not {}", options.from.string(), from.task, task));
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
          order_(static_cast<std::int64_t>(train_data_.examples.size()), recipe.train.batch,
                 recipe.train.seed),
          data_(train_data_, device_),
          network_(recipe, model_, device_),
          adam_(network_.parameters(), recipe.train),
          step_([this] { compute_step(); }, device_) {
        resume();
        load_validation();
        batch_ = std::min(recipe.train.batch, data_.size());
        indices_ = torch::zeros({batch_}, torch::TensorOptions(torch::kLong).device(device_));
        loss_ = torch::zeros({}, device_);
        correct_ = torch::zeros({}, device_);
        history_ = torch::zeros({kLogEvery, 2}, device_);
    }

    TrainResult run() {
        if (done()) return {.progress = progress_, .origin = train_data_.origin};
        begin_files();
        if (exec_.progress)
            exec_.progress->start("training", static_cast<std::uint64_t>(recipe_.train.steps),
                                  static_cast<std::uint64_t>(progress_.step));
        while (!done()) {
            take_step();
            if (at_log()) read_history();
            if (progress_.step % recipe_.train.validate_every == 0 || progress_.step == recipe_.train.steps)
                validate();
            if (stop_requested()) break;
            if (since_save_.seconds() > kSecondsPerCheckpoint) save_last();
        }
        if (progress_.step % kLogEvery != 0) read_history();
        progress_.finished = done();
        save_last();
        if (exec_.progress) exec_.progress->finish();
        check_cancelled(exec_);
        return {.progress = progress_, .loss = last_loss_, .origin = train_data_.origin};
    }

private:
    bool done() const {
        return progress_.step >= recipe_.train.steps ||
               (recipe_.train.patience > 0 && progress_.since_best >= recipe_.train.patience);
    }
    bool at_log() const { return progress_.step % kLogEvery == 0; }
    bool stop_requested() const {
        if (exec_.cancel && exec_.cancel->load()) return true;
        return options_.minutes > 0.0 && clock_.seconds() > 60.0 * options_.minutes;
    }

    void resume() {
        if (model_.training.empty()) return;
        progress_ = progress_of(model_);
        seconds_before_ = progress_.seconds;
        saved_step_ = progress_.step;
        if (done()) return;
        progress_.finished = false;
        const auto restore = [&](const char* name, Tensor& to) {
            const auto found = model_.state.find(name);
            if (found == model_.state.end() ||
                found->second.values().size() != static_cast<std::size_t>(to.numel()))
                fail(ErrorCode::bad_data, fmt::format("{}: no state of the optimiser to continue with",
                                                      (options_.output / "last.safetensors").string()));
            to.copy_(to_tensor(found->second.view()).view(-1));
        };
        restore("mean", adam_.mean);
        restore("square", adam_.square);
    }

    void load_validation() {
        auto source = options_.source;
        if (recipe_.train.validation_examples > 0)
            source.examples = static_cast<std::size_t>(recipe_.train.validation_examples);
        valid_.emplace(load_lra(recipe_.task, LraPart::valid, source, without_progress(exec_)), device_);
    }

    void begin_files() {
        std::filesystem::create_directories(options_.output);
        log_ = log_until(options_.output / "log.jsonl", progress_.step);
        write_file_atomic(options_.output / "log.jsonl", log_);
        write_file_atomic(options_.output / "recipe.yaml", recipe_yaml(recipe_));
        set_omega();
    }

    std::uint64_t redraws(std::int64_t step) const {
        return recipe_.train.redraw > 0 ? static_cast<std::uint64_t>(step / recipe_.train.redraw) : 0;
    }
    void set_omega() {
        model_.omega.clear();
        for (std::int64_t i = 0; i < recipe_.model.layers; ++i) {
            model_.omega.push_back(draw_omega(recipe_.model, {.seed = recipe_.train.seed,
                                                              .layer = static_cast<std::uint64_t>(i),
                                                              .redraws = redraws(progress_.step)}));
        }
        network_.set_omega(model_.omega);
    }

    // On the device; nothing here waits for it.
    void compute_step() {
        network_.parameters().clear_gradients();
        const auto batch = data_.batch(indices_);
        const auto logits = network_.forward(batch, true);
        const auto loss = torch::nn::functional::cross_entropy(logits, batch.labels);
        loss.backward();
        adam_.update();
        network_.clip_weights();
        const torch::NoGradGuard guard;
        loss_.copy_(loss);
        correct_.copy_((logits.argmax(1) == batch.labels).to(torch::kFloat).mean());
    }

    // A pass that only moves the input ranges.
    void follow_ranges(std::int64_t step) {
        const torch::NoGradGuard guard;
        network_.follow_ranges(step);
        network_.forward(data_.batch(indices_), true);
        network_.stop_following();
    }

    void take_step() {
        const auto step = progress_.step;
        if (recipe_.train.redraw > 0 && step > 0 && step % recipe_.train.redraw == 0) set_omega();
        // Dropout and noise of a step depend on the seed and the step alone, so a training can be resumed.
        torch::manual_seed(recipe_.train.seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(step));
        indices_.copy_(torch::tensor(order_.step(step), torch::kLong));
        adam_.set_step(step);
        if (enabled(recipe_.hardware) && step < recipe_.hardware.range_steps) follow_ranges(step);
        step_.run();
        const torch::NoGradGuard guard;
        history_.select(0, step % kLogEvery).copy_(torch::stack({loss_, correct_}));
        ++progress_.step;
        if (exec_.progress) exec_.progress->update(static_cast<std::uint64_t>(progress_.step));
    }

    // Losses since the last reading. Waits for the device.
    void read_history() {
        const auto values = to_matrix(history_);
        const auto count = (progress_.step - 1) % kLogEvery + 1;
        Score mean;
        for (std::int64_t i = 0; i < count; ++i) {
            const auto row = values.view().row(static_cast<std::size_t>(i));
            if (!std::isfinite(row[0]))
                fail(ErrorCode::numeric,
                     fmt::format(
                         "the loss of step {} is {}; the newest checkpoint is of step {}. A smaller lr or "
                         "clip_norm may help",
                         progress_.step - count + i, row[0], saved_step_));
            mean.loss += row[0] / static_cast<double>(count);
            mean.accuracy += row[1] / static_cast<double>(count);
        }
        last_loss_ = mean.loss;
        const double tokens =
            static_cast<double>(count * batch_ * recipe_.model.documents * recipe_.model.length);
        event({.kind = "train",
               .step = progress_.step,
               .loss = mean.loss,
               .accuracy = mean.accuracy,
               .lr = learning_rate(recipe_.train, progress_.step - 1),
               .tokens_per_second = tokens / std::max(since_log_.seconds(), 1e-9)});
        since_log_ = {};
    }

    void event(TrainingEvent e) {
        e.seconds = seconds_before_ + clock_.seconds();
        progress_.seconds = e.seconds;
        log_ += event_json(e) + "\n";
        if (options_.on_event) options_.on_event(e);
    }

    Score score() {
        const torch::NoGradGuard guard;
        auto sums = torch::zeros({2}, device_);
        const auto all = torch::arange(valid_->size(), torch::TensorOptions(torch::kLong).device(device_));
        for (const auto& indices : all.split(batch_)) {
            const auto batch = valid_->batch(indices);
            const auto logits = network_.forward(batch, false);
            const auto loss = torch::nn::functional::cross_entropy(
                logits, batch.labels,
                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
            sums += torch::stack({loss, (logits.argmax(1) == batch.labels).to(torch::kFloat).sum()});
        }
        const auto m = to_matrix(sums);
        const auto n = static_cast<double>(valid_->size());
        return {m(0, 0) / n, m(0, 1) / n};
    }

    void validate() {
        if (!at_log()) read_history();
        const auto s = score();
        since_log_ = {};
        event({.kind = "valid", .step = progress_.step, .loss = s.loss, .accuracy = s.accuracy});
        ++progress_.since_best;
        if (s.accuracy > progress_.best_accuracy) {
            progress_.best_accuracy = s.accuracy;
            progress_.best_step = progress_.step;
            progress_.since_best = 0;
            save(options_.output / "best.safetensors", false);
        }
        save_last();
    }

    void save(const std::filesystem::path& path, bool with_state) {
        network_.parameters().store(model_);
        model_.training = training_json(progress_, recipe_, device_name(device_));
        model_.state.clear();
        if (with_state) {
            model_.state["mean"] = to_matrix(adam_.mean);
            model_.state["square"] = to_matrix(adam_.square);
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
    BatchOrder order_;
    ResidentData data_;
    std::optional<ResidentData> valid_;
    Network network_;
    AdamW adam_;
    CapturedStep step_;
    std::int64_t batch_ = 0;
    Tensor indices_, loss_, correct_, history_;
    TrainingProgress progress_;
    double seconds_before_ = 0.0;
    double last_loss_ = 0.0;
    std::int64_t saved_step_ = 0;
    std::string log_;
    Clock clock_, since_log_, since_save_;
};

// LibTorch's own errors as ours.
[[noreturn]] void rethrow(const c10::Error& e, const TrainRecipe& recipe) {
    const std::string text = e.what_without_backtrace();
    if (text.find("out of memory") != std::string::npos)
        fail(ErrorCode::bad_config,
             fmt::format("the GPU has not enough memory for a batch of {}; try --set batch={}",
                         recipe.train.batch, std::max<std::int64_t>(1, recipe.train.batch / 2)));
    fail(ErrorCode::numeric, "LibTorch: " + text);
}

}  // namespace

TrainResult train(const TrainRecipe& recipe, const TrainOptions& options, const Exec& exec) {
    validate(recipe);
    if (exec.threads > 0) torch::set_num_threads(exec.threads);
    at::globalContext().setAllowTF32CuBLAS(recipe.train.precision != TrainPrecision::fp32);
    try {
        return Training(recipe, options, exec).run();
    } catch (const c10::Error& e) {
        rethrow(e, recipe);
    }
}

}  // namespace imka
