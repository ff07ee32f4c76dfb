// The command line of the program: all verbs, from arguments to results.
#pragma once

#include "app.hpp"

namespace imka::app {

// Parses the arguments and runs their verb. Returns the exit code; for an invalid command line, prints an
// error and returns 2. Throws other errors.
int run_command(int argc, char** argv, Context& context);

// The program: handles signals, prints errors, returns the exit code. train: only in imka-train.
int run_program(int argc, char** argv, const Trainer& train = {});

}  // namespace imka::app
