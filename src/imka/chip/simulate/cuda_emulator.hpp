// The fast simulator on a GPU: inputs become steps, then one kernel computes charges on the matrix units,
// draws noise, converts, corrects and adds partial sums without intermediate results in memory.
//
// Same random numbers as FastEmulator (simulate/fast.hpp), and the same results except where a charge is so
// close to a rounding boundary that the order of float additions decides; such a result differs by one step.
// Bits depend only on the chip, the vector, ids.seed and the number of the product, as on the processor.
#pragma once

#include <memory>

#include "imka/chip/driver.hpp"
#include "imka/chip/programmed_chip.hpp"
#include "imka/cuda/memory.hpp"

namespace imka {

class GpuDriver : public ChipDriver {
public:
    virtual int gpu() const = 0;
    // Waits for the results. Error{bad_data} for inputs that are not finite.
    virtual Trace multiply_on_gpu(std::uint32_t matrix, const cuda::ProductRows& batch,
                                  const ProductIds& ids) = 0;
};

// On GPU exec.device.number. Error{missing_part} if it cannot be used, Error{bad_config} naming a feature of
// the chip that this simulator does not support: IR drop, input jitter, read noise with inputs applied bit by
// bit, more than 127 input levels, regions of more than 512 inputs.
std::unique_ptr<GpuDriver> make_cuda_emulator(const ProgrammedChip& chip, const Exec& exec);

}  // namespace imka
