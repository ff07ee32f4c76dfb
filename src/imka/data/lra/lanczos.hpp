// Lanczos resampling of 8-bit gray images, bit for bit as Pillow's Image.resize does it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/base/matrix.hpp"

namespace imka {

// A square image of side x side pixels from a square image: first along rows, then along columns, each
// rounded to 8 bits.
Matrix<std::uint8_t> lanczos_resized(const Matrix<std::uint8_t>& image, std::size_t side);

}  // namespace imka
