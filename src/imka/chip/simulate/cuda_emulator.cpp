#include "imka/chip/simulate/cuda_emulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/cuda_work.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"

namespace imka {
namespace {

using cuda::Buffer;

constexpr std::size_t kStepBytes = std::size_t{128} << 20U;  // bounds the memory for steps
constexpr std::size_t kFewestRows = 32768;                   // least number of rows at once

// Description of a matrix in the memory of the GPU.
struct MatrixOnGpu {
    Buffer<GpuPanel> panels;
    Buffer<GpuStage> stages;
    Buffer<GpuTerm> terms;
    Buffer<GpuPlane> planes;
    std::uint32_t blocks = 0;  // of all planes
};

// Memory that calls share; grows to the largest call.
struct Workspace {
    Buffer<std::uint32_t> steps;
    Buffer<std::uint8_t> linear_rows;
    Buffer<GpuTally> tallies;
    Buffer<float> x;
    Buffer<float> y;
};

template <class T>
T* at_least(int number, std::size_t size, Buffer<T>& buffer) {
    if (buffer.size() < size) {
        buffer = {};  // frees the old one first
        buffer = Buffer<T>(number, size, cuda::MemorySource::pooled);
    }
    return buffer.data();
}

class CudaEmulator final : public GpuDriver {
public:
    CudaEmulator(const ProgrammedChip& chip, const std::vector<FastRegion>& regions, int number)
        : layout_(chip), number_(number) {
        for (const auto& region : regions) conversions_.push_back(conversions_per_product(region));
        auto image = pack(layout_, regions);
        // Pooled: freeing other memory would wait for all threads that use the GPU.
        constexpr auto kSource = cuda::MemorySource::pooled;
        weights_ = Buffer<std::uint32_t>(number, image.weights, kSource);
        columns_ = Buffer<float>(number, image.columns, kSource);
        spreads_ = Buffer<double>(number, image.spreads, kSource);
        for (const auto& m : image.matrices)
            on_gpu_.push_back({.panels = Buffer<GpuPanel>(number, m.panels, kSource),
                               .stages = Buffer<GpuStage>(number, m.stages, kSource),
                               .terms = Buffer<GpuTerm>(number, m.terms, kSource),
                               .planes = Buffer<GpuPlane>(number, m.planes, kSource),
                               .blocks = m.planes.back().blocks_before + m.planes.back().blocks});
        matrices_ = std::move(image.matrices);
    }

    int gpu() const override { return number_; }
    std::size_t matrices() const override { return layout_.matrices.size(); }
    MatrixShape shape(std::uint32_t matrix) const override { return layout_.matrices.at(matrix).shape; }

    Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids, const Exec&,
                   MatrixView<float> y) override {
        check_call(*this, matrix, x);
        const std::lock_guard lock(mutex_);
        cuda::select_gpu(number_);
        const cuda::ProductRows batch{.x = at_least(number_, x.rows() * x.cols(), work_.x),
                                      .y = at_least(number_, y.rows() * y.cols(), work_.y),
                                      .rows = x.rows()};
        if (batch.rows == 0) return run(matrix, batch, ids);
        work_.x.upload_rows(x);
        auto trace = run(matrix, batch, ids);
        work_.y.download_rows(y);
        return trace;
    }

    Trace multiply_on_gpu(std::uint32_t matrix, const cuda::ProductRows& batch,
                          const ProductIds& ids) override {
        const std::lock_guard lock(mutex_);
        cuda::select_gpu(number_);
        return run(matrix, batch, ids);
    }

private:
    Trace run(std::uint32_t matrix, const cuda::ProductRows& batch, const ProductIds& ids) {
        if (ids.first >= kMostProducts || batch.rows > kMostProducts - ids.first)
            fail(ErrorCode::bad_usage, fmt::format("products {} to {}; numbers must be below 2^32", ids.first,
                                                   ids.first + batch.rows));
        if (work_.tallies.size() == 0)
            work_.tallies = Buffer<GpuTally>(number_, 1, cuda::MemorySource::pooled);
        work_.tallies.upload(std::vector<GpuTally>(1));
        const auto shape = layout_.matrices.at(matrix).shape;
        const auto at_once =
            std::max(kFewestRows, kStepBytes / (std::size_t{kGpuStepBlock} * on_gpu_.at(matrix).blocks));
        for (std::size_t first = 0; first < batch.rows; first += at_once) {
            const cuda::ProductRows part{.x = batch.x + first * shape.inputs,
                                         .y = batch.y + first * shape.outputs,
                                         .rows = std::min(at_once, batch.rows - first)};
            launch(matrix, part, {.seed = ids.seed, .first = ids.first + first});
        }
        GpuTally tally;
        work_.tallies.download(std::span(&tally, 1));
        if (tally.not_finite > 0)
            fail(ErrorCode::bad_data, fmt::format("{} inputs are not finite", tally.not_finite));
        return trace_of(matrix, batch.rows, ids, tally);
    }

    void launch(std::uint32_t matrix, const cuda::ProductRows& batch, const ProductIds& ids) {
        const auto& m = on_gpu_[matrix];
        const auto shape = layout_.matrices[matrix].shape;
        const auto planes = static_cast<std::uint32_t>(m.planes.size());
        // Rows per copy at most; tiles are rounded up to whole blocks.
        const std::size_t most = (batch.rows + matrices_[matrix].copies - 1) / matrices_[matrix].copies;
        const auto tiles =
            static_cast<std::uint32_t>((most + kGpuBlockRows - 1) / kGpuBlockRows * (kGpuBlockRows / 16));
        launch_products(
            {.panels = m.panels.data(),
             .stages = m.stages.data(),
             .terms = m.terms.data(),
             .planes = m.planes.data(),
             .weights = weights_.data(),
             .columns = columns_.data(),
             .spreads = spreads_.data(),
             .steps = at_least(number_, std::size_t{m.blocks} * tiles * 32 * 4, work_.steps),
             .linear_rows = at_least(number_, std::size_t{planes} * tiles * 16, work_.linear_rows),
             .tally = work_.tallies.data(),
             .x = batch.x,
             .y = batch.y,
             .inputs = static_cast<std::uint32_t>(shape.inputs),
             .outputs = static_cast<std::uint32_t>(shape.outputs),
             .rows = static_cast<std::uint32_t>(batch.rows),
             .copies = matrices_[matrix].copies,
             .row_tiles = tiles,
             .panel_count = static_cast<std::uint32_t>(m.panels.size()),
             .plane_count = planes,
             .kind = matrices_[matrix].kind,
             .first_product = ids.first,
             .seed = ids.seed});
    }

    Trace trace_of(std::uint32_t matrix, std::size_t rows, const ProductIds& ids,
                   const GpuTally& tally) const {
        const auto& copies = layout_.matrices[matrix];
        Trace trace;
        for (std::size_t c = 0; c < copies.regions.size(); ++c) {
            const auto products = row_share(copies, c, ids.first, rows).count;
            for (const auto r : copies.regions[c]) {
                auto part = region_trace(layout_, r, {.products = products});
                part.conversions = products * conversions_[r];
                if (products > 0) trace.add(part);
            }
        }
        trace.saturated = tally.saturated;
        trace.limited = tally.limited;
        trace.clipped_inputs = tally.clipped;
        trace.digital_operations -= saved_operations(copies, rows);
        return trace;
    }

    static constexpr std::uint64_t kMostProducts = std::uint64_t{1} << 32U;

    ChipLayout layout_;
    int number_ = 0;
    std::vector<std::uint64_t> conversions_;  // per product of each region
    std::vector<GpuMatrix> matrices_;
    std::vector<MatrixOnGpu> on_gpu_;
    Buffer<std::uint32_t> weights_;
    Buffer<float> columns_;
    Buffer<double> spreads_;
    std::mutex mutex_;  // guards work_
    Workspace work_;
};

}  // namespace

std::unique_ptr<GpuDriver> make_cuda_emulator(const ProgrammedChip& chip, const Exec& exec) {
    std::vector<FastRegion> regions(chip.regions.size());
    parallel_for(exec, regions.size(),
                 [&](std::size_t r) { regions[r] = prepare(chip.regions[r], chip.time); });
    for (const auto& region : regions) {
        if (const auto obstacle = gpu_obstacle(region); !obstacle.empty())
            fail(ErrorCode::bad_config,
                 fmt::format(
                     "the chip has {}, which the emulator on a GPU does not support; use the device cpu",
                     obstacle));
    }
    cuda::require_gpu(exec.device.number);
    return std::make_unique<CudaEmulator>(chip, regions, exec.device.number);
}

#if !IMKA_HAVE_CUDA
void launch_products(const GpuWork&) {}
#endif

}  // namespace imka
