#include "imka/attention/kernel_run.hpp"

#include <cmath>

namespace imka {
namespace {

template <class T>
MatrixView<T> rows_of(const HeadsView<T>& x, const ops::HeadRange& range) {
    return x.head(range.head).slice_rows(range.begin, range.end - range.begin);
}

}  // namespace

KernelRun::KernelRun(const KernelAttention& attention, const AttentionOptions& options, const Exec& exec)
    : projector_(attention.projector_.get()),
      product_seed_(options.product_seed),
      exec_(without_progress(exec)) {
    exec_.threads = 1;
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(attention.inputs())));
    rule_ = {.features = {attention.config_.form, attention.outputs(),
                          static_cast<float>(attention.config_.kernel_epsilon)},
             .input_scale = std::sqrt(scale)};
    if (projector_ != nullptr) return;
    directions_ = ops::directions_of(attention.omega_, rule_.input_scale);
    rule_.directions = &directions_;
}

ops::HeadRows KernelRun::rows(MatrixView<const float> x, std::uint64_t first, Matrix<float>& u) const {
    if (projector_ == nullptr) return {x, {}};
    Matrix<float> scaled(x.rows(), x.cols());
    for (std::size_t r = 0; r < x.rows(); ++r) {
        // Ignored keys may hold anything.
        for (std::size_t c = 0; c < x.cols(); ++c)
            scaled(r, c) = std::isfinite(x(r, c)) ? static_cast<float>(rule_.input_scale * x(r, c)) : 0.0F;
    }
    u = Matrix<float>(x.rows(), rule_.features.directions);
    projector_->project(scaled, {product_seed_, first}, exec_, u);
    return {x, u};
}

ops::HeadRows SequenceRows::queries(const ops::HeadRange& range, Matrix<float>& u) const {
    return run_.rows(rows_of(inputs_.q, range), range.head * inputs_.q.length() + range.begin, u);
}

ops::HeadRows SequenceRows::keys(const ops::HeadRange& range, Matrix<float>& u) const {
    const std::uint64_t queries = inputs_.q.heads() * inputs_.q.length();
    return run_.rows(rows_of(inputs_.k, range), queries + range.head * inputs_.k.length() + range.begin, u);
}

MatrixView<const float> SequenceRows::values(const ops::HeadRange& range) const {
    return rows_of(inputs_.v, range);
}

MatrixView<float> SequenceRows::outputs(const ops::HeadRange& range) const {
    return rows_of(out_, range);
}

ops::HeadSequence SequenceRows::sequence() const {
    return {.source = this,
            .heads = inputs_.q.heads(),
            .key_heads = inputs_.k.heads(),
            .queries = inputs_.q.length(),
            .keys = inputs_.k.length(),
            .value_size = inputs_.v.size(),
            .key_mask = inputs_.key_mask};
}

}  // namespace imka
