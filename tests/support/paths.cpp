#include "support/paths.hpp"

std::string source_dir() {
    return IMKA_SOURCE_DIR;
}

std::string binary_dir() {
    return IMKA_BINARY_DIR;
}
