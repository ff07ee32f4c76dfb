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
// Empty without CUDA, without a driver or without a GPU. Reading the free memory starts every GPU.
std::vector<Gpu> gpus();
int gpu_count();  // does not start them

// The GPU of a process without an assigned GPU: the processes of a machine, numbered from 0, take its GPUs in
// turn. 0 if there are no GPUs.
int gpu_in_turn(int local_rank, int gpus);

// Error{missing_part} that says what to do if GPU `number` cannot be used; DeviceLost (status.hpp) after a
// failure of the GPU.
void require_gpu(int number);

// Makes GPU `number` the GPU of the calling thread's next operations. Errors as above.
void select_gpu(int number);

// Free memory of GPU `number`. Errors as above.
std::size_t free_bytes(int number);

// For computations that use a GPU one at a time, so that each has all of its memory and time.
std::mutex& turns(int number);

}  // namespace imka::cuda
