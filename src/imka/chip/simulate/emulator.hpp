// Emulated chips as drivers: multiply in every region, add partial sums, and share the inputs among copies or
// average their outputs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/chip/driver.hpp"
#include "imka/chip/programmed_chip.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/layout.hpp"

namespace imka {

enum class Simulator {
    fast,     // simulate/fast.hpp
    literal,  // simulate/literal.hpp: device by device, about 12 ms per product of a full core
};
template <>
struct EnumNames<Simulator> {
    static constexpr std::string_view what = "simulator";
    static constexpr std::string_view values[] = {"fast", "literal"};
};

// Shared by both emulators. Bits depend only on the chip, the vector, ids.seed and the number of the
// product. If copies share the inputs, product n is product n / R of copy n mod R.
class Emulator : public ChipDriver {
public:
    std::size_t matrices() const override { return layout_.matrices.size(); }
    MatrixShape shape(std::uint32_t matrix) const override { return layout_.matrices.at(matrix).shape; }
    Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> y) override;

protected:
    explicit Emulator(const ProgrammedChip& chip) : layout_(chip) {}
    // Region number `region` of the plan, and the factor of its products in a sum.
    struct Part {
        std::size_t region = 0;
        float factor = 1.0F;
    };

private:
    // y += factor * products; conversions are added to exec.
    virtual void add_products(const Part& part, MatrixView<const float> x, const ProductIds& ids,
                              const Exec& exec, MatrixView<float> y) const = 0;

    void add_copy(const std::vector<std::size_t>& regions, MatrixView<const float> x, const ProductIds& ids,
                  const Exec& exec, float factor, MatrixView<float> y) const;

    ChipLayout layout_;
};

class FastEmulator final : public Emulator {
public:
    // Folds every region at chip.time; does not keep the chip.
    explicit FastEmulator(const ProgrammedChip& chip, const Exec& exec = {});

private:
    void add_products(const Part& part, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                      MatrixView<float> y) const override;

    std::vector<FastRegion> folded_;
};

class LiteralEmulator final : public Emulator {
public:
    explicit LiteralEmulator(ProgrammedChip chip);

private:
    void add_products(const Part& part, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                      MatrixView<float> y) const override;

    ProgrammedChip chip_;
};

// The fast simulator runs on exec.device (simulate/cuda_emulator.hpp), the literal one on the processor.
std::unique_ptr<ChipDriver> make_emulator(const ProgrammedChip& chip, Simulator simulator,
                                          const Exec& exec = {});

// The product without a chip: x w in float32. A row has the same bits in any batch. Weights are inputs x
// outputs.
Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec);

}  // namespace imka
