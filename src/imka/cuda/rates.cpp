// The rates of a build without CUDA: there is no GPU to measure.
#include "imka/cuda/rates.hpp"

#include "imka/cuda/gpu.hpp"

namespace imka::cuda {

#if !IMKA_HAVE_CUDA
GpuRates measure_rates(int gpu) {
    require_gpu(gpu);
    return {};
}
#endif

}  // namespace imka::cuda
