// Where the sources and the build are. Only paths.cpp is compiled with them, so that compiler caches serve
// every checkout.
#pragma once

#include <string>

std::string source_dir();
std::string binary_dir();
