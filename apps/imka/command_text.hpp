// The command line of a verb as text, quoted for a shell.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace imka::app {

// "imka deploy model.onnx --calibrate x.npy": positional arguments, then options in the order given.
std::string command_text(const CLI::App& verb);

}  // namespace imka::app
