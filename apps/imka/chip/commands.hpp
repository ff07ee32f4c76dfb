// The verbs of imka chip, one file per verb.
#pragma once

#include <CLI/CLI.hpp>

#include "app.hpp"

namespace imka::app {

void add_chip_info(CLI::App& chip, Context& context);
void add_chip_mvm(CLI::App& chip, Context& context);
void add_chip_program(CLI::App& chip, Context& context);
void add_chip_age(CLI::App& chip, Context& context);
void add_chip_explain(CLI::App& chip, Context& context);
void add_chip_fit(CLI::App& chip, Context& context);

}  // namespace imka::app
