#include "imka/deploy/model_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/batch_size.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/graph/simplify.hpp"

namespace imka {
namespace {

using graph::Graph;
using graph::Shape;
using graph::Tensor;
using graph::TensorView;

// Passes the calls of one executor on to a hook.
class CallNames : public graph::MatrixHook {
public:
    CallNames(const graph::Executor& executor, std::span<const std::string> names, ModelHook& hook)
        : hook_(hook) {
        std::map<std::string_view, std::uint32_t> numbers;
        for (std::uint32_t k = 0; k < names.size(); ++k) numbers[names[k]] = k;
        for (std::size_t m = 0; m < executor.matrices().size(); ++m) {
            const auto& matrix = executor.matrices()[m];
            const auto found = numbers.find(matrix.name);
            if (found == numbers.end()) continue;
            for (std::uint32_t use = 0; use < matrix.uses.size(); ++use)
                calls_[{m, matrix.uses[use].node}] = {{found->second, use}, 0, 0};
        }
    }

    bool multiply(const graph::MatrixCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        const auto named = model_call(call, x.rows());
        return named && hook_.multiply(*named, x, exec, y);
    }
    bool takes_gpu_rows() const override { return hook_.takes_gpu_rows(); }
    bool multiply_on_gpu(const graph::MatrixCall& call, const cuda::ProductRows& rows,
                         const Exec& exec) override {
        const auto named = model_call(call, rows.rows);
        return named && hook_.multiply_on_gpu(*named, rows, exec);
    }

    void end_batch() {
        for (auto& [key, use] : calls_) {
            use.done += use.in_batch;
            use.in_batch = 0;
        }
    }
    // Continues after the rows that another executor of the same graph has multiplied.
    void continue_after(const CallNames& other) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> done;
        for (const auto& [key, use] : other.calls_) done[{use.id.matrix, use.id.use}] = use.done;
        for (auto& [key, use] : calls_) use.done = done[{use.id.matrix, use.id.use}];
    }

private:
    struct Id {
        std::uint32_t matrix = 0;
        std::uint32_t use = 0;
    };
    struct Use {
        Id id;
        std::uint64_t done = 0;      // rows of earlier batches
        std::uint64_t in_batch = 0;  // rows of this batch so far
    };
    // nullopt if the matrix is not passed to the hook.
    std::optional<ModelCall> model_call(const graph::MatrixCall& call, std::size_t rows) {
        const auto found = calls_.find({call.matrix, call.node});
        if (found == calls_.end()) return std::nullopt;
        auto& [id, done, in_batch] = found->second;
        in_batch = std::max<std::uint64_t>(in_batch, call.first_row + rows);
        return ModelCall{id.matrix, id.use, done + call.first_row};
    }

    ModelHook& hook_;
    std::map<std::pair<std::size_t, std::size_t>, Use> calls_;  // by matrix and node of the executor
};

std::vector<std::uint32_t> batch_rows(std::size_t first, std::size_t batch, std::size_t inferences) {
    std::vector<std::uint32_t> rows(batch);
    for (std::size_t i = 0; i < batch; ++i)
        rows[i] = static_cast<std::uint32_t>(std::min(first + i, inferences - 1));
    return rows;
}

// Appends the first `count` of `batch` inferences of each output.
void append(const std::vector<Tensor>& batch_outputs, std::size_t batch, std::size_t count,
            std::vector<Tensor>& outputs) {
    outputs.resize(batch_outputs.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        const auto& from = batch_outputs[k];
        if (from.shape.empty() || from.shape[0] != static_cast<std::int64_t>(batch))
            fail(ErrorCode::bad_data,
                 fmt::format(
                     "output {} has shape {}; expected the {} inferences of a batch along its first axis; "
                     "run one batch at a time",
                     k, graph::to_text(from.shape), batch));
        auto& to = outputs[k];
        if (to.bytes.empty()) {
            to.type = from.type;
            to.shape = from.shape;
            to.shape[0] = 0;
        }
        to.shape[0] += static_cast<std::int64_t>(count);
        const auto bytes = from.bytes.size() / batch * count;
        to.bytes.insert(to.bytes.end(), from.bytes.begin(),
                        from.bytes.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
}

}  // namespace

std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
    std::vector<TensorView> views(tensors.size());
    std::ranges::transform(tensors, views.begin(), [](const Tensor& t) { return t.view(); });
    return views;
}

std::size_t count_inferences(const Graph& graph, std::span<const TensorView> inputs) {
    if (inputs.size() != graph.inputs.size())
        fail(ErrorCode::bad_data,
             fmt::format("the model has {} inputs, got {}", graph.inputs.size(), inputs.size()));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        const auto& name = graph.values[graph.inputs[k]].name;
        if (inputs[k].shape.empty() || inputs[k].shape[0] == 0)
            fail(ErrorCode::bad_data, fmt::format("input {} of shape {} holds no inference", in_quotes(name),
                                                  graph::to_text(inputs[k].shape)));
        if (inputs[k].shape[0] != inputs[0].shape[0])
            fail(ErrorCode::bad_data, fmt::format("input {} has {} inferences, the first input has {}",
                                                  in_quotes(name), inputs[k].shape[0], inputs[0].shape[0]));
    }
    if (inputs.empty()) fail(ErrorCode::bad_data, "the model has no inputs");
    return static_cast<std::size_t>(inputs[0].shape[0]);
}

// The executor of one batch size.
struct BatchRunner::Prepared {
    std::vector<Shape> shapes;
    graph::Executor executor;
    std::size_t runs = 0;                        // of the last call
    std::vector<std::size_t> on_processor = {};  // in its last run
};

BatchRunner::BatchRunner(const Graph& graph, std::span<const std::string> matrices, std::string_view label)
    : graph_(graph), matrices_(matrices), label_(label) {}
BatchRunner::~BatchRunner() = default;

BatchRunner::Prepared& BatchRunner::prepared(std::span<const TensorView> inputs, std::size_t batch) {
    auto shapes = batch_shapes(inputs, batch);
    for (auto& p : prepared_) {
        if (p->shapes == shapes) return *p;
    }
    constexpr std::size_t kMost = 2;  // full batches, and the rest
    if (prepared_.size() == kMost) prepared_.erase(prepared_.begin());
    graph::Executor executor(graph::simplified(graph::with_input_shapes(graph_, shapes)));
    prepared_.push_back(std::make_unique<Prepared>(Prepared{std::move(shapes), std::move(executor)}));
    return *prepared_.back();
}

std::vector<Tensor> BatchRunner::run(std::span<const TensorView> all, ModelHook* hook, const Exec& exec) {
    const auto inferences = count_inferences(graph_, all);
    const auto fixed = fixed_batch(graph_).has_value();
    // Sizes that have run before need no new scan of all tensors of the graph.
    const auto whole = batch_shapes(all, inferences);
    const bool known = std::ranges::any_of(prepared_, [&](const auto& p) { return p->shapes == whole; });
    const auto batch = known ? inferences : batch_size(graph_, all);
    for (auto& p : prepared_) p->runs = 0;
    std::vector<Tensor> outputs;
    std::optional<CallNames> names;
    const Prepared* last = nullptr;
    Progress progress(exec, label_, inferences);
    for (std::size_t first = 0; first < inferences; first += batch) {
        const auto count = std::min(batch, inferences - first);
        const auto size = fixed ? batch : count;
        auto& now = prepared(all, size);
        if (&now != last && hook != nullptr) {
            CallNames next(now.executor, matrices_, *hook);
            if (names) next.continue_after(*names);
            names.emplace(std::move(next));
        }
        last = &now;
        const auto inputs = select_inferences(all, batch_rows(first, size, inferences));
        auto result = now.executor.run(views_of(inputs), names ? &*names : nullptr, without_progress(exec));
        ++now.runs;
        now.on_processor = std::move(result.on_processor);
        if (first == 0 && count == size && count == inferences) return std::move(result.outputs);
        append(result.outputs, size, count, outputs);
        if (names) names->end_batch();
        progress.update(first + count);
    }
    return outputs;
}

std::vector<BatchRunner::BatchSteps> BatchRunner::steps() const {
    std::vector<BatchSteps> list;
    for (const auto& p : prepared_) {
        if (p->runs > 0)
            list.push_back({pipeline_of(p->executor.graph(), matrices_), static_cast<double>(p->runs)});
    }
    return list;
}

std::vector<std::string> BatchRunner::on_processor() const {
    std::set<std::string> names;
    for (const auto& p : prepared_) {
        for (const auto n : p->on_processor) {
            if (p->runs > 0) names.insert(p->executor.graph().nodes[n].name);
        }
    }
    return {names.begin(), names.end()};
}

std::vector<Tensor> run_batches(const BatchJob& job, ModelHook* hook, const Exec& exec) {
    return BatchRunner(job.graph, job.matrices, job.label).run(job.inputs, hook, exec);
}

std::vector<Tensor> select_inferences(std::span<const TensorView> inputs,
                                      std::span<const std::uint32_t> order) {
    std::vector<Tensor> out;
    for (const auto& from : inputs) {
        auto shape = from.shape;
        const auto bytes = from.bytes() / static_cast<std::size_t>(shape[0]);
        shape[0] = static_cast<std::int64_t>(order.size());
        Tensor& to = out.emplace_back(from.type, shape);
        for (std::size_t i = 0; i < order.size() && bytes > 0; ++i)
            std::memcpy(to.bytes.data() + i * bytes, from.data + order[i] * bytes, bytes);
    }
    return out;
}

}  // namespace imka
