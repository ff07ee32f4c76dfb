// Activations and normalisations of networks, one row at a time.
//
// Domain: any float. NaN in a row gives NaN: in its place for gelu, in the whole row for the others. Outputs
// may be the input itself, but must not overlap it otherwise. Accuracy: gelu within 3e-7 max(1, |x|) of the
// exact value; softmax within 1e-6 + 6e-8 (|x - max x| + size / lanes) relative, the rounding of differences
// and sums, for elements above 1e-30; layer_norm within 1e-5 of the largest output. The bits of a row depend
// only on the row and the instruction set. Cost: one pass over x for gelu, three for the others, in the
// widest vectors of the processor, selected at run time.
#pragma once

#include <span>

namespace imka::ops {

// y[i] = x[i] (1 + erf(x[i] / sqrt(2))) / 2. NaN for -infinity, as this formula gives.
void gelu(std::span<const float> x, std::span<float> y);

// y[i] = exp(x[i] - max x) / sum. An infinite x is the only non-zero element; rows of -infinity give NaN.
void softmax(std::span<const float> x, std::span<float> y);

struct LayerScale {
    std::span<const float> scale;
    std::span<const float> bias;
    float epsilon;  // added to the variance
};
struct LayerMoments {
    float mean;
    float inverse;  // 1 / sqrt(variance + epsilon)
};
// y[i] = (x[i] - mean) inverse scale[i] + bias[i].
LayerMoments layer_norm(std::span<const float> x, const LayerScale& layer, std::span<float> y);

}  // namespace imka::ops
