// z(x): projection, then the kernel's element-wise functions and scale. z(x)ᵀz(y) approximates k(x, y).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"
#include "imka/omega/omega.hpp"
#include "imka/ops/feature_row/feature_row.hpp"

namespace imka {

// Interface between a feature map and the hardware that multiplies by Ω: a processor or a chip.

class GpuProjector;  // features/gpu_feature_map.hpp

class Projector {
public:
    virtual ~Projector() = default;
    virtual std::size_t inputs() const = 0;   // d
    virtual std::size_t outputs() const = 0;  // m
    // u = x Ωᵀ for any number of rows. ids identify the noise of each row, if any: row r is number ids.first
    // + r in the caller's stream. The bits of a row do not depend on its batch. Thread-safe.
    virtual void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                         MatrixView<float> u) const = 0;
    // The same on GPU `gpu`; nullptr if there is no GPU variant.
    virtual std::unique_ptr<const GpuProjector> on_gpu(int gpu) const;
};

// auto_: the default of the kernel. cos_sin: [cos u, sin u], D = 2m (softmax: trigonometric features).
// offset_cos: sqrt(2) cos(u + b), b uniform on [0, 2π), D = m, for shift-invariant kernels. positive: [exp u,
// exp -u], softmax.
enum class Form { auto_, cos_sin, offset_cos, positive };
template <>
struct EnumNames<Form> {
    static constexpr std::string_view what = "form";
    static constexpr std::string_view values[] = {"auto", "cos_sin", "offset_cos", "positive"};
};

// Everything that defines z. Equal recipes give the same bits.
struct FeatureRecipe {
    OmegaRecipe omega;
    Form form = Form::auto_;
};

Fields fields(FeatureRecipe& recipe);
void validate(const FeatureRecipe& recipe);

// Features per direction: 2 for cos_sin and positive, 1 otherwise. Error{bad_config} if the kernel has no
// such form.
std::size_t functions_per_direction(Kernel kernel, Form form);

// Steps before and after the projection: inputs are multiplied by input_scale, features are computed from the
// projections.
struct FeatureFunctions {
    float input_scale = 1.0F;
    ops::FeatureRow row;
    std::vector<float> offsets;  // of offset_cos
};
FeatureFunctions feature_functions(const FeatureRecipe& recipe);

class GpuFeatureMap;

class FeatureMap {
public:
    // Draws Ω, by default on all cores.
    explicit FeatureMap(const FeatureRecipe& recipe, const Exec& exec = {});
    // Uses the given projector (a saved Ω, a chip) instead of drawing Ω.
    FeatureMap(const FeatureRecipe& recipe, std::unique_ptr<const Projector> projector);
    ~FeatureMap();
    FeatureMap(FeatureMap&& other) noexcept;
    FeatureMap& operator=(FeatureMap&& other) noexcept;

    const FeatureRecipe& recipe() const { return recipe_; }
    std::size_t inputs() const { return projector_->inputs(); }  // d
    std::size_t features() const { return features_; }           // D

    // z row by row, D columns. Row r of x is number ids.first + r in the caller's stream; ids.seed seeds the
    // noise of a chip and has no effect otherwise. The bits of a row do not depend on its neighbours, the
    // batch or the threads. Error{bad_data} naming the row if x has a NaN. On exec.device; docs/cuda.md lists
    // the differences between devices.
    void transform(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> z) const;
    Matrix<float> transform(MatrixView<const float> x, const ProductIds& ids, const Exec& exec) const;
    Matrix<float> transform(MatrixView<const float> x, const Exec& exec) const {
        return transform(x, {}, exec);
    }

    // The map on a GPU, copied there by the first call. Lives as long as this map.
    const GpuFeatureMap& on_gpu(int gpu) const;

private:
    struct GpuCopies;
    // Memory that a thread reuses for each block of rows.
    struct Scratch {
        Matrix<float> x;  // scaled inputs
        Matrix<float> u;  // their projections
    };
    void transform_block(MatrixView<const float> x, const ProductIds& ids, const Exec& exec, Scratch& scratch,
                         MatrixView<float> z) const;

    FeatureRecipe recipe_;
    std::unique_ptr<const Projector> projector_;
    FeatureFunctions functions_;
    std::size_t features_ = 0;
    std::unique_ptr<GpuCopies> gpu_copies_;
};

// A map, and the seed of its products.
struct SeededMap {
    const FeatureMap* map = nullptr;
    std::uint64_t seed = 0;
};

}  // namespace imka
