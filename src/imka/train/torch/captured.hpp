// A training step as one launch: recorded once as a CUDA graph, then replayed. Without CUDA it runs directly.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "imka/base/device.hpp"

namespace imka {

class CapturedStep {
public:
    // The function reads and writes the same tensors in every call and does not wait for the device.
    CapturedStep(std::function<void()> step, const torch::Device& device);
    ~CapturedStep();
    CapturedStep(const CapturedStep&) = delete;
    CapturedStep& operator=(const CapturedStep&) = delete;
    // Runs the step; the first calls run directly, so that libraries can set themselves up.
    void run();

private:
    struct Recording;
    std::function<void()> step_;
    bool capture_;
    int calls_ = 0;
    std::unique_ptr<Recording> recording_;
};

// The stream of LibTorch's operations on the current GPU, a cudaStream_t; nullptr without CUDA.
void* current_stream();

// Error{missing_part} if the device is not available.
torch::Device torch_device(const ComputeDevice& device);
std::string device_name(const torch::Device& device);

}  // namespace imka
