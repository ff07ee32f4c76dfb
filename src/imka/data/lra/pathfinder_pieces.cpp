// Segments and markers of Pathfinder's images.
#include <algorithm>
#include <cstdlib>

#include "imka/data/lra/lanczos.hpp"
#include "imka/data/lra/pathfinder.hpp"

namespace imka::pathfinder {
namespace {

using Image = Matrix<std::uint8_t>;

std::uint8_t& at(Image& image, Point p) {
    return image(static_cast<std::size_t>(p.y), static_cast<std::size_t>(p.x));
}

// Bresenham's line, with Pillow's rule for ties.
void draw_line(Point from, Point to, Image& image) {
    const int dy = std::abs(to.y - from.y);
    const int dx = std::abs(to.x - from.x);
    const int step_y = to.y < from.y ? -1 : 1;
    const int step_x = to.x < from.x ? -1 : 1;
    const int steps = std::max(dx, dy);
    const int minor = std::min(dx, dy);
    int error = 2 * minor - steps;
    at(image, from) = 255;
    for (int i = 0; i < steps; ++i) {
        const bool both = error >= 0;
        if (both) error -= 2 * steps;
        error += 2 * minor;
        if (both || dx > dy) from.x += step_x;
        if (both || dx <= dy) from.y += step_y;
        at(image, from) = 255;
    }
}

// The largest value within `radius` of each pixel.
Image dilated(const Image& image, int radius) {
    const auto side = static_cast<int>(image.rows());
    Image out(image.rows(), image.cols());
    for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) {
            const int top = std::max(y - radius, 0);
            const int bottom = std::min(y + radius, side - 1);
            for (int v = top; v <= bottom; ++v) {
                for (int u = std::max(x - radius, 0); u <= std::min(x + radius, side - 1); ++u) {
                    if ((v - y) * (v - y) + (u - x) * (u - x) > radius * radius) continue;
                    auto& value = at(out, {y, x});
                    value = std::max(value, image(static_cast<std::size_t>(v), static_cast<std::size_t>(u)));
                }
            }
        }
    }
    return out;
}

bool reaches_inside(const std::vector<Point>& offsets, Point outwards) {
    return std::ranges::any_of(offsets,
                               [=](Point p) { return p.y * outwards.y <= 0 && p.x * outwards.x <= 0; });
}

}  // namespace

Patch make_patch(Point end) {
    constexpr int kCentre = kReach * kScale;
    Image canvas(2 * kCentre + 1, 2 * kCentre + 1);
    draw_line({kCentre, kCentre}, {kCentre + end.y, kCentre + end.x}, canvas);
    Patch patch;
    patch.line = lanczos_resized(canvas, 2 * kReach + 1);
    patch.mask = lanczos_resized(dilated(canvas, kMargin * kScale), 2 * kReach + 1);
    // The published generator puts the segment one pixel off the middle of its 7 x 7 kernel.
    constexpr int kHalf = kLength + kMargin;
    for (int y = 0; y <= 2 * kHalf; ++y) {
        for (int x = 0; x <= 2 * kHalf; ++x) {
            if (at(patch.mask, {y, x}) == 255) patch.blocked.push_back({y - kHalf, x - kHalf});
        }
    }
    constexpr std::array<Point, 4> kCorners = {{{-1, -1}, {-1, 1}, {1, -1}, {1, 1}}};
    patch.can_start = std::ranges::all_of(
        kCorners, [&](Point outwards) { return reaches_inside(patch.blocked, outwards); });
    return patch;
}

Matrix<std::uint8_t> make_marker(Point centre) {
    constexpr int kRadius = 3;  // 1.5 pixels
    constexpr int kFine = kSide * kScale;
    Image canvas(kFine, kFine);
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
            const Point p{centre.y * kScale + dy, centre.x * kScale + dx};
            const bool inside = p.y >= 0 && p.y < kFine && p.x >= 0 && p.x < kFine;
            if (inside && dy * dy + dx * dx <= kRadius * kRadius) at(canvas, p) = 255;
        }
    }
    return lanczos_resized(canvas, kSide);
}

}  // namespace imka::pathfinder
