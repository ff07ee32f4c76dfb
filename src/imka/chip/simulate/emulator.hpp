// Emulated chips behind the driver interface: products of every region, partial sums added, copies of a
// matrix taking turns or averaged.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/chip/driver.hpp"
#include "imka/chip/programmed_chip.hpp"
#include "imka/chip/simulate/fast.hpp"

namespace imka {

enum class Simulator {
    fast,     // simulate/fast.hpp
    literal,  // simulate/literal.hpp: device by device, about 12 ms for a product of a full core
};
template <>
struct EnumNames<Simulator> {
    static constexpr std::string_view what = "simulator";
    static constexpr std::string_view values[] = {"fast", "literal"};
};

// What both emulators share. Bits depend on the chip, the vector, ids.seed and the number of the product
// alone. With copies that share the inputs, product n is product n / R of copy n mod R.
class Emulator : public ChipDriver {
public:
    std::size_t matrices() const override { return matrices_.size(); }
    MatrixShape shape(std::uint32_t matrix) const override { return matrices_.at(matrix).shape; }
    Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> y) override;

protected:
    explicit Emulator(const ProgrammedChip& chip);

private:
    // Products of the region with this number in the plan; conversions are recorded in exec.
    virtual Matrix<float> region_products(std::size_t region, MatrixView<const float> x,
                                          const ProductIds& ids, const Exec& exec) const = 0;

    struct Copies {
        MatrixShape shape;
        Replication replication = Replication::throughput;
        std::vector<std::vector<std::size_t>> regions;  // of each copy
    };
    void add_copy(const std::vector<std::size_t>& regions, MatrixView<const float> x, const ProductIds& ids,
                  const Exec& exec, float factor, MatrixView<float> y) const;
    void share_out(const Copies& matrix, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> y) const;
    Trace region_trace(std::size_t region, MatrixView<const float> x) const;

    std::vector<Copies> matrices_;
    std::vector<Region> regions_;
    std::vector<double> input_ranges_;
    std::uint64_t bytes_per_input_ = 0;
    std::uint64_t bytes_per_output_ = 0;
};

class FastEmulator final : public Emulator {
public:
    // Folds every region at chip.time; the chip itself is not kept.
    explicit FastEmulator(const ProgrammedChip& chip, const Exec& exec = {});

private:
    Matrix<float> region_products(std::size_t region, MatrixView<const float> x, const ProductIds& ids,
                                  const Exec& exec) const override;

    std::vector<FastRegion> folded_;
};

class LiteralEmulator final : public Emulator {
public:
    explicit LiteralEmulator(ProgrammedChip chip);

private:
    Matrix<float> region_products(std::size_t region, MatrixView<const float> x, const ProductIds& ids,
                                  const Exec& exec) const override;

    ProgrammedChip chip_;
};

std::unique_ptr<ChipDriver> make_emulator(const ProgrammedChip& chip, Simulator simulator,
                                          const Exec& exec = {});

// x w in float32, each row with the bits it has in any batch: the product that needs no chip. Weights are
// inputs x outputs.
Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec);

}  // namespace imka
