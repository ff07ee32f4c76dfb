// How much of an error each non-ideality causes: alone, and by what its removal saves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

// The squared error of a chip with these settings. Called by several threads at once.
using SquaredError = std::function<double(const ChipSettings& settings)>;

// Squared errors of one seed.
struct CaseErrors {
    double full = 0.0;
    double none = 0.0;            // everything switched off: what is not the chip's
    std::vector<double> alone;    // one per item: only this one
    std::vector<double> removed;  // all but this one
};

// What one non-ideality causes, a value per seed. Shares are of what the chip adds to the squared error.
struct Attribution {
    const Nonideality* item = nullptr;
    std::vector<double> alone_error;  // signed root of the squared error above `none`
    std::vector<double> alone;        // its share
    std::vector<double> saved;        // share that its removal saves
};

struct ErrorAttribution {
    std::vector<CaseErrors> errors;  // one per seed
    std::vector<Attribution> items;  // the non-idealities that the settings have
};

// Tries the chips of one seed. Error{bad_usage} where the settings have no non-ideality; Error{numeric} where
// the chip does not raise the error.
CaseErrors measure_cases(const ChipSettings& settings, const SquaredError& squared_error, const Exec& exec);
// Shares of every seed that was measured.
ErrorAttribution attribute_error(const ChipSettings& settings, std::vector<CaseErrors> errors);

// The relative error of products.
ErrorAttribution attribute_product_error(const ChipTrials& trials, const AgedRead& read, const Exec& exec);

}  // namespace imka
