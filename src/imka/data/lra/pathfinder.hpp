// Pieces of Pathfinder images: segments of contours and round markers, drawn at twice the resolution and
// shrunk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/matrix.hpp"

namespace imka::pathfinder {

inline constexpr int kSide = 32;   // of an image
inline constexpr int kReach = 4;   // of a patch around its centre
inline constexpr int kScale = 2;   // resolution at which pieces are drawn
inline constexpr int kLength = 2;  // of a segment
inline constexpr int kMargin = 1;  // around a segment

struct Point {
    int y = 0;
    int x = 0;
};

// A segment that starts in the middle of a 9 x 9 patch.
struct Patch {
    Matrix<std::uint8_t> line;  // gray levels
    Matrix<std::uint8_t> mask;  // of the segment and its margin
    // Where the mask is 255, in the square of 7 x 7 pixels that keeps new contours away from others.
    std::vector<Point> blocked;
    // Whether a new contour can start with this segment: at every corner of an image, one of the blocked
    // pixels is inside the image. Otherwise the published generator finds no free pixel, because the dilation
    // of the image's mask has values below 0.
    bool can_start = false;
};

// The segment to `end`, in pixels of the higher resolution, -4..4.
Patch make_patch(Point end);

// 32 x 32: a disc of radius 1.5.
Matrix<std::uint8_t> make_marker(Point centre);

}  // namespace imka::pathfinder
