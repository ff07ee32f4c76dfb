// What `imka reproduce --check` prints.
#pragma once

#include <string>
#include <vector>

#include "imka/report/check.hpp"

namespace imka::app {

// Counts per data set, then the cells that differ, or all of them.
enum class ListedCells { deviating, all };
std::string check_text(const std::vector<report::CheckedCell>& cells, ListedCells listed);
// {"reproduced": 439, "cells": 450, "list": [...]}
std::string check_json(const std::vector<report::CheckedCell>& cells);

}  // namespace imka::app
