#include "imka/features/feature_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

Form own_form(Functions functions) {
    if (functions == Functions::cos_sin) return Form::cos_sin;
    return functions == Functions::exp_pm ? Form::positive : Form::auto_;
}

// The form in use; Form::auto_ is returned for the step functions, which have only one form.
Form resolve_form(Kernel kernel, Form asked) {
    const auto& row = kernel_info(kernel);
    const Form own = own_form(row.feature_law(1.0, 1).functions);
    if (asked == Form::auto_ || asked == own) return own;
    const bool has = (asked == Form::offset_cos && row.shift_invariant) ||
                     (asked == Form::cos_sin && own == Form::positive);
    if (!has) {
        fail(ErrorCode::bad_config, fmt::format("the {} kernel has no features of the form {}",
                                                to_string(kernel), to_string(asked)));
    }
    return asked;
}

std::vector<float> draw_offsets(std::uint64_t seed, std::size_t m) {
    std::vector<float> offsets(m);
    for (std::size_t i = 0; i < m; ++i) {
        offsets[i] = static_cast<float>(2.0 * std::numbers::pi * uniform(seed, Stream::feature_offset, i));
    }
    return offsets;
}

ops::FeatureFunction function_of(Form form, Functions functions) {
    if (form == Form::cos_sin) return ops::FeatureFunction::cos_sin;
    if (form == Form::offset_cos) return ops::FeatureFunction::offset_cos;
    if (form == Form::positive) return ops::FeatureFunction::exp_plus_minus;
    if (functions == Functions::step) return ops::FeatureFunction::step;
    return functions == Functions::relu ? ops::FeatureFunction::relu : ops::FeatureFunction::relu_squared;
}

}  // namespace

Fields fields(FeatureRecipe& recipe) {
    Fields list = fields(recipe.omega);
    list.push_back(
        field("form", recipe.form, {.help = "Form of the features; auto: the default of the kernel"}));
    return list;
}

void validate(const FeatureRecipe& recipe) {
    validate(recipe.omega);
    const auto functions = functions_per_direction(recipe.omega.kernel, recipe.form);
    check_fits_memory(static_cast<double>(kTileRows),
                      static_cast<double>(recipe.omega.m) * static_cast<double>(functions), sizeof(float),
                      "a tile of features");
}

std::size_t functions_per_direction(Kernel kernel, Form form) {
    const Form used = resolve_form(kernel, form);
    return used == Form::cos_sin || used == Form::positive ? 2 : 1;
}

FeatureFunctions feature_functions(const FeatureRecipe& recipe) {
    const auto& omega = recipe.omega;
    const Form form = resolve_form(omega.kernel, recipe.form);
    auto law = kernel_info(omega.kernel).feature_law(omega.gamma, static_cast<std::size_t>(omega.d));
    if (form == Form::cos_sin && law.functions == Functions::exp_pm) {
        // exp(xᵀy) = exp(|x|²/2) E[cos ωᵀ(x - y)] exp(|y|²/2).
        law.prefactor = 1.0;
        law.norm_exponent = 0.5;
    }
    FeatureFunctions out{.input_scale = static_cast<float>(law.input_scale),
                         .row = {.function = function_of(form, law.functions),
                                 .scale = law.prefactor / std::sqrt(static_cast<double>(omega.m)),
                                 .norm_exponent = law.norm_exponent}};
    if (form == Form::offset_cos) out.offsets = draw_offsets(omega.seed, static_cast<std::size_t>(omega.m));
    return out;
}

std::unique_ptr<const GpuProjector> Projector::on_gpu(int) const {
    return nullptr;
}

struct FeatureMap::GpuCopies {
    std::mutex mutex;
    std::map<int, GpuFeatureMap> maps;
};

FeatureMap::FeatureMap(const FeatureRecipe& recipe, const Exec& exec)
    : FeatureMap(recipe, choose_projector(recipe.omega, exec)) {}

FeatureMap::FeatureMap(const FeatureRecipe& recipe, std::unique_ptr<const Projector> projector)
    : recipe_(recipe), projector_(std::move(projector)), gpu_copies_(std::make_unique<GpuCopies>()) {
    validate(recipe_);
    assert(projector_->inputs() == static_cast<std::size_t>(recipe_.omega.d));
    assert(projector_->outputs() == static_cast<std::size_t>(recipe_.omega.m));
    functions_ = feature_functions(recipe_);
    features_ =
        static_cast<std::size_t>(recipe_.omega.m) * ops::features_per_direction(functions_.row.function);
}

FeatureMap::~FeatureMap() = default;
FeatureMap::FeatureMap(FeatureMap&& other) noexcept = default;
FeatureMap& FeatureMap::operator=(FeatureMap&& other) noexcept = default;

void FeatureMap::transform_block(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                                 Scratch& scratch, MatrixView<float> z) const {
    const auto scale = functions_.input_scale;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const auto in = x.row(r);
        const auto out = scratch.x.row(r);
        for (std::size_t c = 0; c < in.size(); ++c) {
            if (!std::isfinite(in[c])) {
                fail(ErrorCode::bad_data,
                     fmt::format("input row {}: feature {} is not a finite number", ids.first + r, c));
            }
            out[c] = scale * in[c];
        }
    }
    projector_->project(scratch.x.view().slice_rows(0, x.rows()), ids, exec,
                        scratch.u.view().slice_rows(0, x.rows()));
    const bool needs_norm = functions_.row.norm_exponent != 0.0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const double norm2 = needs_norm ? ops::squared_norm(scratch.x.row(r)) : 0.0;
        ops::feature_row(functions_.row, scratch.u.row(r), functions_.offsets, norm2, z.row(r));
    }
}

void FeatureMap::transform(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                           MatrixView<float> z) const {
    if (x.cols() != inputs()) {
        fail(ErrorCode::bad_data,
             fmt::format("the rows have {} features, the feature map takes {}", x.cols(), inputs()));
    }
    assert(z.rows() == x.rows() && z.cols() == features());
    const StopWatch watch(exec, &WorkTimes::features);
    if (exec.device.kind == DeviceKind::cuda) return on_gpu(exec.device.number).transform(x, ids, exec, z);
    // Few enough rows that the projections stay in cache.
    constexpr std::size_t kBlock = kTileRows;
    const std::size_t most_rows = std::min(kBlock, x.rows());
    Exec one = exec;
    one.threads = 1;
    parallel_for_workers(exec, (x.rows() + kBlock - 1) / kBlock, [&] {
        return
            [&, scratch = Scratch{Matrix<float>(most_rows, inputs()),
                                  Matrix<float>(most_rows, projector_->outputs())}](std::size_t t) mutable {
                const std::size_t first = t * kBlock;
                const std::size_t count = std::min(kBlock, x.rows() - first);
                transform_block(x.slice_rows(first, count), {ids.seed, ids.first + first}, one, scratch,
                                z.slice_rows(first, count));
            };
    });
}

const GpuFeatureMap& FeatureMap::on_gpu(int gpu) const {
    const std::scoped_lock lock(gpu_copies_->mutex);
    return gpu_copies_->maps.try_emplace(gpu, *projector_, functions_, gpu).first->second;
}

Matrix<float> FeatureMap::transform(MatrixView<const float> x, const ProductIds& ids,
                                    const Exec& exec) const {
    check_fits_memory(static_cast<double>(x.rows()), static_cast<double>(features()), sizeof(float),
                      "the feature matrix");
    Matrix<float> z(x.rows(), features());
    transform(x, ids, exec, z.view());
    return z;
}

}  // namespace imka
