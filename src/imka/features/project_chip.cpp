#include "imka/features/project_chip.hpp"

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/cuda_emulator.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/features/gpu_feature_map.hpp"

namespace imka {
namespace {

// Products of the chip in GPU memory. The driver belongs to a ChipProjector that outlives this object.
class GpuChip final : public GpuProjector {
public:
    GpuChip(int gpu, GpuDriver& driver, std::uint32_t matrix, const ChipOutputs& outputs)
        : gpu_(gpu),
          driver_(driver),
          matrix_(matrix),
          lost_rows_(outputs.lost_rows),
          factors_(gpu, outputs.factors, cuda::MemorySource::pooled) {}

    void features(const ops::GpuFeatureJob& job, const ProductIds& ids, const Exec& exec) const override {
        const auto [inputs, outputs] = driver_.shape(matrix_);
        const std::size_t most =
            std::clamp<std::size_t>(kBlockValues / std::max(inputs, outputs), 1, job.rows);
        const cuda::Buffer<float> x(gpu_, most * inputs, cuda::MemorySource::pooled);
        const cuda::Buffer<float> u(gpu_, most * outputs, cuda::MemorySource::pooled);
        const cuda::Buffer<float> extra(gpu_, most, cuda::MemorySource::pooled);
        for (std::size_t first = 0; first < job.rows; first += most) {
            auto part = job;
            part.x += first * inputs;
            part.z += first * job.stride;
            part.first_value += first * inputs;
            part.rows = std::min(most, job.rows - first);
            ops::scale_rows(part, {.d = inputs, .scaled = x.data(), .extra = extra.data()});
            if (has_bad_value(job)) return;
            record(exec, driver_.multiply_on_gpu(matrix_, {.x = x.data(), .y = u.data(), .rows = part.rows},
                                                 {ids.seed, ids.first + first}));
            ops::features_of({.u = u.data(),
                              .m = outputs,
                              .factors = factors_.size() > 0 ? factors_.data() : nullptr,
                              .lost = lost_rows_,
                              .first = ids.first + first,
                              .extra = extra.data()},
                             part);
        }
    }

private:
    static constexpr std::size_t kBlockValues = std::size_t{1} << 26U;

    // The caller reports bad values with their position, which the driver would not.
    static bool has_bad_value(const ops::GpuFeatureJob& job) {
        std::uint64_t bad = 0;
        cuda::download(job.not_finite, sizeof(bad), &bad);
        return bad != ops::kAllFinite;
    }

    int gpu_;
    GpuDriver& driver_;
    std::uint32_t matrix_;
    std::uint64_t lost_rows_;
    cuda::Buffer<float> factors_;
};

std::unique_ptr<ChipProjector> make_projector(BuiltChip built, const Exec& exec) {
    return std::make_unique<ChipProjector>(
        make_emulator(built.chip, Simulator::fast, exec), 0,
        ChipOutputs{.factors = std::move(built.factors), .lost_rows = built.lost_rows});
}

}  // namespace

void ChipProjector::project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                            MatrixView<float> u) const {
    record(exec, driver_->multiply(matrix_, x, ids, exec, u));
    const auto& [factors, lost] = outputs_;
    for (std::size_t r = 0; r < u.rows(); ++r) {
        if (lost > 0 && (ids.first + r) % lost == lost - 1) std::ranges::fill(u.row(r), 0.0F);
        for (std::size_t c = 0; c < factors.size(); ++c) u(r, c) *= factors[c];
    }
}

std::unique_ptr<const GpuProjector> ChipProjector::on_gpu(int gpu) const {
    auto* driver = dynamic_cast<GpuDriver*>(driver_.get());
    if (driver == nullptr || driver->gpu() != gpu) return nullptr;
    return std::make_unique<GpuChip>(gpu, *driver, matrix_, outputs_);
}

ChipProjection chip_projection(const ProjectionJob& job, const Exec& exec) {
    auto built = build_chip(job, exec);
    const auto state = state_of(built.chip);
    const auto cores = core_count(built.chip.plan);
    return {.projector = make_projector(std::move(built), exec), .state = state, .cores = cores};
}

std::unique_ptr<const Projector> make_chip_projector(const ProjectionJob& job, const Exec& exec) {
    return chip_projection(job, exec).projector;
}

ChipMap chip_feature_map(const FeatureRecipe& recipe, ProjectionJob job, const Exec& exec) {
    const auto& omega = recipe.omega;
    const auto law = kernel_info(omega.kernel).feature_law(omega.gamma, static_cast<std::size_t>(omega.d));
    job.input_scale = law.input_scale;
    auto placed = chip_projection(job, exec);
    return {
        .map = FeatureMap(recipe, std::move(placed.projector)), .state = placed.state, .cores = placed.cores};
}

}  // namespace imka
