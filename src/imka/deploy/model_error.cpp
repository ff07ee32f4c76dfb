#include "imka/deploy/model_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/emulator.hpp"

namespace imka {
namespace {

using Outputs = std::vector<graph::Tensor>;

// Sums of squares of a difference and of its reference.
struct Squares {
    double difference = 0.0;
    double reference = 0.0;

    template <class T>
    void add(std::span<const T> values, std::span<const T> exact) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            difference += std::pow(double{values[i]} - double{exact[i]}, 2.0);
            reference += double{exact[i]} * double{exact[i]};
        }
    }
    double relative() const { return reference > 0.0 ? difference / reference : 0.0; }
};

// Computes products in FP32 and keeps them.
class ReferenceHook : public ModelHook {
public:
    explicit ReferenceHook(const Plan& plan) : plan_(plan) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        const auto exact = digital_products(plan_.matrices[call.matrix].weights, x, exec);
        for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::copy(exact.row(r), y.row(r).begin());
        auto& kept = products_[{call.matrix, call.use}];
        kept.insert(kept.end(), exact.values().begin(), exact.values().end());
        return true;
    }
    MatrixView<const float> products(const ModelCall& call, std::size_t rows, std::size_t cols) const {
        const auto& kept = products_.at({call.matrix, call.use});
        return {kept.data() + call.first_row * cols, rows, cols};
    }

private:
    const Plan& plan_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<float>> products_;
};

// Products on the chip, compared with FP32.
class ErrorHook : public ModelHook {
public:
    ErrorHook(ChipDriver& driver, std::uint64_t seed, const Plan& plan, const ReferenceHook& reference)
        : chip_(driver, seed),
          plan_(plan),
          reference_(reference),
          own_(plan.matrices.size()),
          accumulated_(plan.matrices.size()) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        chip_.multiply(call, x, exec, y);
        const auto exact = digital_products(plan_.matrices[call.matrix].weights, x, exec);
        const auto reference = reference_.products(call, y.rows(), y.cols());
        for (std::size_t r = 0; r < y.rows(); ++r) {
            own_[call.matrix].add<float>(y.row(r), exact.row(r));
            accumulated_[call.matrix].add<float>(y.row(r), reference.row(r));
        }
        return true;
    }
    double own(std::size_t matrix) const { return std::sqrt(own_[matrix].relative()); }
    double accumulated(std::size_t matrix) const { return std::sqrt(accumulated_[matrix].relative()); }

private:
    ChipHook chip_;
    const Plan& plan_;
    const ReferenceHook& reference_;
    std::vector<Squares> own_;
    std::vector<Squares> accumulated_;
};

// The matrices from first to last on the chip; the others stay digital.
class SomeMatricesHook : public ModelHook {
public:
    SomeMatricesHook(ChipDriver& driver, std::uint64_t seed, std::uint32_t first, std::uint32_t last)
        : chip_(driver, seed), first_(first), last_(last) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        return on_chip(call) && chip_.multiply(call, x, exec, y);
    }
    bool takes_gpu_rows() const override { return chip_.takes_gpu_rows(); }
    bool multiply_on_gpu(const ModelCall& call, const cuda::ProductRows& rows, const Exec& exec) override {
        return on_chip(call) && chip_.multiply_on_gpu(call, rows, exec);
    }

private:
    bool on_chip(const ModelCall& call) const { return call.matrix >= first_ && call.matrix <= last_; }

    ChipHook chip_;
    std::uint32_t first_;
    std::uint32_t last_;
};

Outputs run_with(const DeployedModel& model, std::span<const graph::Tensor> inputs, ModelHook* hook,
                 const Exec& exec) {
    return run_batches({.graph = model.graph, .matrices = model.matrices, .inputs = inputs}, hook,
                       without_progress(exec));
}

// Errors of one chip.
struct ChipErrors {
    std::vector<double> own;
    std::vector<double> accumulated;
    std::vector<double> alone;
    std::vector<double> added;
    double total = 0.0;
};

ChipErrors errors_of(const DeployedModel& model, std::span<const graph::Tensor> inputs,
                     const ReferenceHook& reference, const Outputs& exact, const Exec& exec) {
    const auto driver = make_emulator(model.chip, Simulator::fast, exec);
    const auto seed = product_seed(model.chip.seed);
    const auto error_with = [&](std::uint32_t first, std::uint32_t last) {
        SomeMatricesHook hook(*driver, seed, first, last);
        return squared_error(run_with(model, inputs, &hook, exec), exact);
    };
    ErrorHook hook(*driver, seed, model.chip.plan, reference);
    ChipErrors out;
    out.total = squared_error(run_with(model, inputs, &hook, exec), exact);
    const auto count = static_cast<std::uint32_t>(model.matrices.size());
    double before = 0.0;
    for (std::uint32_t k = 0; k < count; ++k) {
        out.own.push_back(hook.own(k));
        out.accumulated.push_back(hook.accumulated(k));
        out.alone.push_back(error_with(k, k));
        const double with = k + 1 == count ? out.total : k == 0 ? out.alone[0] : error_with(0, k);
        out.added.push_back(with - before);
        before = with;
    }
    return out;
}

Summary over_chips(const std::vector<ChipErrors>& chips, std::vector<double> ChipErrors::*list,
                   std::size_t k) {
    std::vector<double> values(chips.size());
    std::ranges::transform(chips, values.begin(), [&](const ChipErrors& chip) { return (chip.*list)[k]; });
    return summarize(std::move(values));
}

}  // namespace

double squared_error(std::span<const graph::Tensor> outputs, std::span<const graph::Tensor> reference) {
    Squares sum;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].type == graph::DType::f32)
            sum.add(outputs[k].values<float>(), reference[k].values<float>());
        if (outputs[k].type == graph::DType::f64)
            sum.add(outputs[k].values<double>(), reference[k].values<double>());
    }
    if (!(sum.reference > 0.0))
        fail(ErrorCode::bad_data,
             "the model has no floating-point output other than 0; the relative error is undefined");
    return sum.relative();
}

ModelError model_error(const DeployedModel& model, std::span<const graph::Tensor> inputs,
                       std::span<const std::uint64_t> seeds, const Exec& exec) {
    ReferenceHook reference(model.chip.plan);
    const auto exact = run_with(model, inputs, &reference, exec);
    std::vector<ChipErrors> chips;
    Progress progress(exec, "chips", seeds.size());
    for (const auto seed : seeds) {
        const auto chip = rebuilt(model, {model.chip.plan.spec, model.build, seed}, without_progress(exec));
        chips.push_back(errors_of(chip, inputs, reference, exact, exec));
        progress.update(chips.size());
    }
    std::vector<double> totals(chips.size());
    std::ranges::transform(chips, totals.begin(), &ChipErrors::total);
    ModelError out{.total = summarize(std::move(totals))};
    for (std::size_t k = 0; k < model.matrices.size(); ++k)
        out.matrices.push_back({.name = model.matrices[k],
                                .own = over_chips(chips, &ChipErrors::own, k),
                                .accumulated = over_chips(chips, &ChipErrors::accumulated, k),
                                .alone = over_chips(chips, &ChipErrors::alone, k),
                                .added = over_chips(chips, &ChipErrors::added, k)});
    return out;
}

ErrorAttribution attribute_model_error(const DeployedModel& model, std::span<const graph::Tensor> inputs,
                                       std::span<const std::uint64_t> seeds, const Exec& exec) {
    // GPUs do not emulate some of these chips.
    Exec on_processor = exec;
    on_processor.device = {};
    const auto exact = run_with(model, inputs, nullptr, on_processor);
    const ChipSettings settings{.spec = model.chip.plan.spec};
    std::vector<CaseErrors> errors;
    for (const auto seed : seeds) {
        const auto error = [&](const ChipSettings& changed) {
            auto build = model.build;
            if (changed.whole_range) {
                build.input_range = InputRangeRule::max;
                build.input_alpha.reset();
            }
            const Exec one{.threads = 1, .cancel = exec.cancel};
            const auto chip = rebuilt(model, {changed.spec, build, seed}, one);
            const auto driver = make_emulator(chip.chip, Simulator::fast, one);
            return squared_error(run_model(chip, *driver, inputs, product_seed(seed), one).outputs, exact);
        };
        errors.push_back(measure_cases(settings, error, exec));
    }
    return attribute_error(settings, std::move(errors));
}

}  // namespace imka
