#include "imka/ops/normals/variants.hpp"

#include <array>
#include <vector>

#include "imka/cuda/gpu.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka::ops {
namespace {

bool has_gpu() {
    return !cuda::gpus().empty();
}

bool always() {
    return true;
}

// Fills whole blocks of four on the first GPU and copies the wanted part.
void fill_by_cuda(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out) {
    const std::size_t lead = first % 4;
    std::vector<float> blocks(lead + out.size());
    cuda::Buffer<float> memory(0, blocks.size());
    fill_normal_on_gpu({seed, stream, first - lead}, 0, memory);
    memory.download(blocks);
    std::copy(blocks.begin() + static_cast<std::ptrdiff_t>(lead), blocks.end(), out.begin());
}

constexpr std::array kVariants = {NormalsVariant{"cuda", has_gpu, fill_by_cuda},
                                  NormalsVariant{"vector", always, ops::fill_normal},
                                  NormalsVariant{"reference", always, imka::fill_normal}};

}  // namespace

std::span<const NormalsVariant> normals_variants() {
    return kVariants;
}

#if !IMKA_HAVE_CUDA
void fill_normal_on_gpu(const NormalsRange&, int gpu, cuda::Buffer<float>&) {
    cuda::require_gpu(gpu);
}
#endif

}  // namespace imka::ops
