// Settings of random features, and the recipe they give for an input size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "imka/base/config.hpp"
#include "imka/base/matrix.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/omega/omega.hpp"

namespace imka {

// A number, or scikit-learn's `scale`: 1 / (d × variance of the inputs).
struct GammaSetting {
    std::optional<double> value = 0.05;  // absent: scale
};
template <>
struct Codec<GammaSetting> {
    static std::string type() { return "number|scale"; }
    static GammaSetting parse(std::string_view text, std::string_view name);
    static std::string json(const GammaSetting& g);
    static void check(const GammaSetting& g, const FieldInfo& info, std::string_view name);
};

struct FeatureConfig {
    Kernel kernel = Kernel::rbf;
    GammaSetting gamma = {};
    Sampler sampler = Sampler::orf;
    Norms norms = Norms::auto_;
    Form form = Form::auto_;
    std::optional<double> truncation = {};          // standard deviations; 0 = off; auto: see FeatureUse
    std::optional<std::int64_t> n_components = {};  // D
    std::optional<double> log_ratio = {};           // r = log2(m / d); 4 if neither is given
};
Fields fields(FeatureConfig& config);
// Checks everything that does not depend on the inputs.
void validate(const FeatureConfig& config);

// How the features are used. Truncation `auto` is 3 in the measured convention, and on a chip for Gaussian
// laws; else off. In the measured convention a log ratio r gives m = 2^r d - r directions.
struct FeatureUse {
    Convention convention = Convention::standard;
    bool on_chip = false;
};

struct InputStatistics {
    std::int64_t d = 0;
    std::optional<double> variance = {};  // of all entries; needed only for gamma `scale`
};
// The variance is computed only if the settings need it.
InputStatistics input_statistics(const FeatureConfig& config, MatrixView<const float> x);
// The same for rows that arrive in blocks.
class InputMoments {
public:
    void add(MatrixView<const float> rows);
    InputStatistics statistics() const;

private:
    std::int64_t d_ = 0;
    double n_ = 0.0;
    double mean_ = 0.0;
    double squares_ = 0.0;
};

struct FeatureSizes {
    std::int64_t d = 0;
    std::int64_t m = 0;         // directions
    std::int64_t features = 0;  // D
    double log_ratio = 0.0;     // as set, or log2(m / d)
};
// Error{bad_config} if D = 0 or D is not a multiple of the number of features per direction.
FeatureSizes feature_sizes(const FeatureConfig& config, const FeatureUse& use, std::int64_t d);

// As set, or the value of `scale` for these inputs. Error{bad_data} for constant inputs.
double resolve_gamma(const FeatureConfig& config, const InputStatistics& inputs);
// As set, or the value of `auto` for this use.
double resolve_truncation(const FeatureConfig& config, const FeatureUse& use);

FeatureRecipe resolve(const FeatureConfig& config, const FeatureUse& use, const InputStatistics& inputs,
                      std::uint64_t seed);

}  // namespace imka
