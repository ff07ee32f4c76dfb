// Error caused by each non-ideality alone, and decrease of the error when it is switched off.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

// Returns the squared error of a chip with these settings. Must be thread-safe.
using SquaredError = std::function<double(const ChipSettings& settings)>;

// Squared errors of one seed.
struct CaseErrors {
    double full = 0.0;
    double none = 0.0;            // all switched off: error not caused by the chip
    std::vector<double> alone;    // one per item: only this one
    std::vector<double> removed;  // all but this one
};

// Effect of one non-ideality, one value per seed. Shares are relative to the squared error added by the chip,
// averaged over seeds; they are meaningless if the chip adds no error.
struct Attribution {
    const Nonideality* item = nullptr;
    std::vector<double> alone_error;  // signed root of the squared error minus `none`
    std::vector<double> alone;        // its share
    std::vector<double> saved;        // share saved by switching it off
};

struct ErrorAttribution {
    std::vector<CaseErrors> errors;  // one per seed
    std::vector<Attribution> items;  // the non-idealities active in the settings
};

// Measures the chips of one seed. Error{bad_usage} if the settings have no non-ideality.
CaseErrors measure_cases(const ChipSettings& settings, const SquaredError& squared_error, const Exec& exec);
// Shares for every measured seed.
ErrorAttribution attribute_error(const ChipSettings& settings, std::vector<CaseErrors> errors);

// Relative error of products.
ErrorAttribution attribute_product_error(const ChipTrials& trials, const AgedRead& read, const Exec& exec);

}  // namespace imka
