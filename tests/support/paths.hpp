// Source and build folders. Only paths.cpp is compiled with them, so that compiler caches work across
// checkouts.
#pragma once

#include <string>

std::string source_dir();
std::string binary_dir();
