// Ω, the m x d matrix of random directions. Ω is its recipe: the same recipe gives the same bits, and any
// block of rows can be made alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka {

enum class Sampler { rff, orf, sorf };
template <>
struct EnumNames<Sampler> {
    static constexpr std::string_view what = "sampler";
    static constexpr std::string_view values[] = {"rff", "orf", "sorf"};
};

// Lengths of orthogonal rows. auto_: chi for orf, sqrt for sorf (as published).
enum class Norms { auto_, chi, sqrt };
template <>
struct EnumNames<Norms> {
    static constexpr std::string_view what = "norms";
    static constexpr std::string_view values[] = {"auto", "chi", "sqrt"};
};

// What auto_ means for a sampler; auto_ itself for rff, whose rows have the lengths of the law.
Norms resolve_norms(Sampler sampler, Norms norms);

// standard: right by construction. measured: as in the published runs (Householder signs in orf; D H D H D H
// instead of H D H D H D in sorf; with truncation, rff entries and the Gaussian behind orf are cut, not the
// final Ω).
enum class Convention { standard, measured };
template <>
struct EnumNames<Convention> {
    static constexpr std::string_view what = "convention";
    static constexpr std::string_view values[] = {"standard", "measured"};
};

struct OmegaRecipe {
    Kernel kernel = Kernel::rbf;
    double gamma = 0.05;  // kernels that use it; in [1e-20, 1e20]
    Sampler sampler = Sampler::rff;
    Norms norms = Norms::auto_;
    double truncation = 0.0;  // standard deviations at which entries are cut; 0 = off, else >= 0.01
    Convention convention = Convention::standard;
    std::int64_t d = 0;  // columns; >= 1 (orf: <= 8192, sorf: <= 2^24)
    std::int64_t m = 0;  // rows; >= 1
    std::uint64_t seed = 0;
};

Fields fields(OmegaRecipe& recipe);

// Error{bad_config} for sizes out of range and for a kernel x sampler that is refused, with the reason. Ω may
// be larger than the memory: rows of it, or projections that never form it, need not be.
void validate(const OmegaRecipe& recipe);

// On all cores unless told otherwise; the threads change no bit. Error{bad_config} where Ω does not fit into
// the memory.
Matrix<float> sample(const OmegaRecipe& recipe, const Exec& exec = {});

// Rows first .. first + out.rows() - 1, with the bits they have in the whole matrix. orf makes whole blocks
// of d rows and keeps what is asked for, so cuts at multiples of d are cheapest.
void sample_rows(const OmegaRecipe& recipe, std::int64_t first, MatrixView<float> out);

// What is known of a combination; one row a kernel x sampler x norms (`imka features --list`).
enum class Bias { unbiased, biased, refused };
template <>
struct EnumNames<Bias> {
    static constexpr std::string_view what = "bias";
    static constexpr std::string_view values[] = {"unbiased", "biased", "refused"};
};
struct Combination {
    Kernel kernel;
    Sampler sampler;
    Norms norms;  // auto_ for rff, which has none
    Bias bias;
    std::string reason;   // why biased (with its size where known) or refused
    std::string formula;  // of a block of Ω
};
Combination combination(Kernel kernel, Sampler sampler, Norms norms);

}  // namespace imka
