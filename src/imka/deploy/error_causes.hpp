// The causes of an error summarised over chips, for tables and documents.
#pragma once

#include <span>
#include <vector>

#include "imka/chip/analyse/attribution.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// Effect of one non-ideality (Attribution), over chips.
struct ErrorCause {
    const Nonideality* item = nullptr;
    Summary alone_error;
    Summary alone;
    Summary saved;
};

// In the order of the items.
std::vector<ErrorCause> summarize_causes(const ErrorAttribution& attribution);
// The cause whose removal saves most comes first.
std::vector<ErrorCause> by_saving(std::vector<ErrorCause> causes);

// Root of this part of the squared error, over chips.
Summary root_error(std::span<const CaseErrors> errors, double CaseErrors::*part);

// Whether the chips add an error at all: each adds more than a fifth to the squared error of an ideal chip,
// or the 95 % interval of the added error lies above 0.
bool is_above_ideal(std::span<const CaseErrors> errors);

}  // namespace imka
