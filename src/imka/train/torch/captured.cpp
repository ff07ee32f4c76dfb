// The only file with ATen's CUDA headers.
#include "imka/train/torch/captured.hpp"

#if IMKA_TORCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <fmt/format.h>

#include <optional>

#include "imka/base/error.hpp"

namespace imka {

#if IMKA_TORCH_CUDA

namespace {
constexpr int kDirectCalls = 3;
}

struct CapturedStep::Recording {
    at::cuda::CUDAGraph graph;
    c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    bool done = false;
};

CapturedStep::CapturedStep(std::function<void()> step, const torch::Device& device)
    : step_(std::move(step)), capture_(device.is_cuda()) {
    if (capture_) recording_ = std::make_unique<Recording>();
}

void CapturedStep::run() {
    if (!capture_) return step_();
    auto& r = *recording_;
    if (r.done) return r.graph.replay();
    // Directly on the stream of the capture: a capture must not follow work of another stream.
    at::cuda::getCurrentCUDAStream().synchronize();
    {
        const c10::cuda::CUDAStreamGuard guard(r.stream);
        if (calls_++ < kDirectCalls) {
            step_();
        } else {
            r.graph.capture_begin();
            step_();
            r.graph.capture_end();
            r.done = true;
        }
        r.stream.synchronize();
    }
    if (r.done) r.graph.replay();
}

CapturedStep::~CapturedStep() {
    // A replay may still use the memory of the step. If the GPU is lost, there is nothing to wait for.
    try {
        if (capture_) at::cuda::getCurrentCUDAStream().synchronize();
    } catch (const c10::Error&) {
        capture_ = false;
    }
}

// LibTorch's default stream is 0, which in imka's kernels means a stream of the calling thread: a backward
// pass, which runs in its own thread, would not wait for the forward pass.
void* current_stream() {
    const auto stream = at::cuda::getCurrentCUDAStream().stream();
    return stream == nullptr ? cudaStreamLegacy : stream;
}

std::string device_name(const torch::Device& device) {
    return device.is_cuda() ? std::string(at::cuda::getDeviceProperties(device.index())->name) : "processor";
}

#else

struct CapturedStep::Recording {};
CapturedStep::CapturedStep(std::function<void()> step, const torch::Device&)
    : step_(std::move(step)), capture_(false) {}
void CapturedStep::run() {
    step_();
}
CapturedStep::~CapturedStep() = default;
void* current_stream() {
    return nullptr;
}
std::string device_name(const torch::Device&) {
    return "processor";
}

#endif

torch::Device torch_device(const ComputeDevice& device) {
    if (device.kind == DeviceKind::cpu) return torch::kCPU;
    if (!torch::cuda::is_available())
        fail(ErrorCode::missing_part,
             IMKA_TORCH_CUDA ? "LibTorch finds no GPU; --device cpu trains on the processor"
                             : "this LibTorch is built without CUDA; --device cpu trains on the processor");
    if (device.number >= static_cast<int>(torch::cuda::device_count()))
        fail(ErrorCode::missing_part,
             fmt::format("no GPU {}; this machine has {}; --device cpu trains on the processor",
                         device.number, torch::cuda::device_count()));
    return {torch::kCUDA, static_cast<torch::DeviceIndex>(device.number)};
}

}  // namespace imka
