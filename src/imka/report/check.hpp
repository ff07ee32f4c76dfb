// Our results against published ones, cell by cell: what `imka reproduce --check` decides on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "imka/report/figure.hpp"

namespace imka::report {

struct CheckedCell {
    std::string experiment;
    Published published;
    Summary ours;  // n = 0: not run
    // In combined standard errors; 0 where nothing was run.
    double deviation() const;
    bool reproduced() const;
};

// Every published value that can be judged: run in its own protocol and settings, or missing from the
// experiments among the records.
std::vector<CheckedCell> check_cells(const std::vector<Record>& records,
                                     const std::vector<Published>& published);

// Share of reproduced cells that `imka reproduce --check` asks for. Not all: a few of several hundred cells
// lie beyond 3 standard errors by chance (docs/validation.md).
inline constexpr double kShareWanted = 0.9;
// How many cells chance alone would put beyond (Student's law for the few seeds behind each mean).
double expected_by_chance(const std::vector<CheckedCell>& cells);

}  // namespace imka::report
