// GPUs of this machine and the CUDA version of the build. Also available in a build without CUDA, which
// finds no GPU.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace imka::cuda {

// True if GPU variants were compiled.
bool is_compiled();

struct Build {
    std::string architectures;  // "90": those with compiled machine code; empty without CUDA
    std::string runtime;        // "13.0"; empty without CUDA
    std::string driver;         // the latest version that the driver supports; empty without a driver
};
Build build();

struct Gpu {
    std::string name;
    int major = 0;  // compute capability
    int minor = 0;
    int multiprocessors = 0;
    std::size_t memory_bytes = 0;
    std::size_t free_bytes = 0;
};
// Empty without CUDA, without a driver or without a GPU. Asking for free memory starts every GPU.
std::vector<Gpu> gpus();
int gpu_count();  // without starting them

// The GPU of a process that has none of its own: processes of a machine, numbered from 0, take its GPUs in
// turn. 0 without GPUs.
int gpu_in_turn(int local_rank, int gpus);

// Error{missing_part} that says what to do if GPU `number` cannot be used; DeviceLost (status.hpp) after a
// failure of the GPU.
void require_gpu(int number);

// Makes it the GPU of the calling thread's next operations. Errors as above.
void select_gpu(int number);

// Of its memory. Errors as above.
std::size_t free_bytes(int number);

// For computations that use a GPU in turns, so that each has its memory and its time.
std::mutex& turns(int number);

}  // namespace imka::cuda
