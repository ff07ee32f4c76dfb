// Peak rates of a GPU, measured: the floors that benchmarks print.
#pragma once

namespace imka::cuda {

// Per second.
struct GpuRates {
    double byte_macs = 0.0;    // multiply-adds of signed bytes on the matrix units
    double half_macs = 0.0;    // of halves
    double tf32_macs = 0.0;    // of floats with 11 bits
    double normals = 0.0;      // standard normals, drawn and added up
    double powers = 0.0;       // powers of two of floats
    double write_bytes = 0.0;  // written to memory
};
// With the instructions of the emulator. Takes a fraction of a second. Error{missing_part} without the GPU.
GpuRates measure_rates(int gpu);

}  // namespace imka::cuda
