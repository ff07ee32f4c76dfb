// Warnings about results: records that could not be used, failed runs, figures that mix programs, machines or
// data.
#pragma once

#include <string>
#include <vector>

#include "imka/experiment/record.hpp"

namespace imka::report {

struct Flag {
    std::string name;   // "torn", "other_schema", "malformed", "disagrees", "failed", "mixed", "uneven"
    std::string title;  // one sentence
    std::vector<std::string> details;
};

std::vector<Flag> find_flags(const RecordSet& set);

}  // namespace imka::report
