// Pictures of attention matrices, as PNG and SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/experiment/attention_run.hpp"

namespace imka::report {

// One matrix as levels 0 (smallest) to 255.
struct HeatMap {
    std::string name;
    Matrix<std::uint8_t> levels;
};
// Cuts off padding at the end: the rows and columns from the first diagonal value of the exact matrix that
// equals its last one. Each matrix is scaled from its smallest value to the level that 3 % (FP32: 4 %) of its
// values exceed.
std::vector<HeatMap> heat_maps(const AttentionPicture& picture);

// An indexed PNG file, dark for small levels.
std::string png_bytes(const Matrix<std::uint8_t>& levels);
std::string base64(std::string_view bytes);
// The maps side by side, with their names.
std::string heat_map_svg(const std::vector<HeatMap>& maps);

}  // namespace imka::report
