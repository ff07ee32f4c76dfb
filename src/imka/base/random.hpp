// Random numbers as functions of (seed, stream, index). Nothing here has state, so any block of a random
// matrix can be computed alone, in any order, by any number of threads, with the same bits on every machine:
// only integer arithmetic and IEEE additions, multiplications, divisions and square roots are used.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace imka {

// Philox4x32-10 (Salmon et al., SC'11): ten rounds of a keyed bijection on 128 bits.
using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// The purpose of a number. Different streams are independent. Values are part of the file formats: append,
// never renumber.
enum class Stream : std::uint32_t {
    test = 0,
    omega_normal = 1,    // Gaussian entries of Ω, and the Gaussian blocks that orf orthogonalises
    omega_norm = 2,      // chi norms of orthogonal rows
    omega_mixing = 3,    // chi-square factors of Student laws, denominators of Cauchy laws
    omega_sign = 4,      // Rademacher diagonals
    feature_offset = 5,  // offsets of the offset-cosine form
    split = 6,           // permutation for a random split
    synthetic_class = 7,
    synthetic_value = 8,
    synthetic_mix = 9,
    subsample = 10,         // rows sampled for a metric
    chip_program = 11,      // programming error of a device
    chip_drift = 12,        // its drift exponent
    chip_stuck = 13,        // whether it is stuck
    chip_read_frozen = 14,  // slow part of its read noise
    chip_read_fresh = 15,   // fast part, redrawn for every product
    chip_polarity = 16,     // how much a device differs when read in reverse
    chip_adc_gain = 17,
    chip_adc_offset = 18,
    chip_adc_noise = 19,
    chip_calibration = 20,       // rows sampled for calibration
    chip_response = 24,          // response of a device to pulses: SET, current, drift
    chip_pulse = 25,             // randomness of each pulse
    chip_verify = 26,            // noise of the read after a pulse
    chip_tuning_input = 27,      // inputs for programming by products
    chip_tuning_read = 28,       // slow device noise while a batch of these products is measured
    chip_tuning_product = 29,    // noise of one such product
    chip_input_jitter = 30,      // relative pulse length of an input in one product
    chip_polarity_error = 31,    // noise of the comparator that decides the sign of a conversion
    chip_posterior = 32,         // constants proposed for the posterior of a fit
    chip_posterior_choice = 33,  // whether they are accepted
    model_init = 34,             // weights of a network before training
    training_order = 35,         // order of the examples in an epoch
    lra_example = 40,            // generated examples of Long Range Arena
};

// The index-th 32-bit word of a stream.
std::uint32_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t index);

// Uniform on (0, 1): (word + 1/2) / 2^32, exact in double.
double uniform(std::uint64_t seed, Stream stream, std::uint64_t index);

// Uniform integer in [0, n), n >= 1. Uses two words; the bias is below n / 2^64.
std::uint64_t uniform_int(std::uint64_t seed, Stream stream, std::uint64_t index, std::uint64_t n);

// Standard normal: Box-Muller transform of the words 2k and 2k+1 for the indices 2k (cosine) and 2k+1 (sine).
// Evaluated in float: within 4e-7 (1 + |x|) of the exact transform of the same words; |x| <= 6.77.
float normal(std::uint64_t seed, Stream stream, std::uint64_t index);

// out[i] = normal(seed, stream, first + i).
void fill_normal(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out);

// Standard normal conditioned on |x| <= bound, by rejection (truncated, not clipped). bound > 0. The attempt
// is part of the counter, so the draw is still a function of its index.
float truncated_normal(std::uint64_t seed, Stream stream, std::uint64_t index, float bound);

// Random permutation of 0..n-1 (Fisher-Yates).
std::vector<std::uint32_t> permutation(std::uint64_t seed, Stream stream, std::uint32_t n);

}  // namespace imka
