// Images of Pathfinder: two contours of 14 segments, five distractors of 4 segments, and two markers. The
// label says whether the markers are at the two ends of the same contour.
//
// Directions are unit vectors and moved points are rounded up, as in the published generator. Values are
// exact before rounding or far from a rounding boundary, so images do not depend on the machine's
// mathematical library.
#include "imka/data/lra/pathfinder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <span>

#include "imka/data/lra/generate.hpp"

namespace imka {
namespace pathfinder {
namespace {

constexpr int kSegments = 14;
constexpr int kDistractors = 5;
constexpr int kDistractorSegments = 4;
constexpr int kDistractorTries = 5;
constexpr int kTries = 3;         // of a segment
constexpr int kSeedDistance = 7;  // between the first points of the two contours
constexpr int kPixels = kSide * kSide;
// Masks count as free up to 0.3 of 255, and two may add up to less than 1.8 of 255.
constexpr int kMostFree = 76;
constexpr int kOverlap = 459;
constexpr double kContourContrast = 1.5;  // markers have 1
constexpr double kDistractorContrast = 2.0;

struct Direction {
    double sine = 0.0;
    double cosine = 0.0;
};

Direction reversed(Direction d) {
    return {-d.sine, -d.cosine};
}

// Multiples of 30 degrees have sines near 0 and 1/2, where the last bit decides how a point is rounded. These
// are the values of the published generator's angles, independent of the mathematical library.
constexpr std::array<double, 12> kSines = {0.0,
                                           0.49999999999999994,
                                           0.8660254037844386,
                                           1.0,
                                           0.8660254037844387,
                                           0.49999999999999994,
                                           1.2246467991473532e-16,
                                           -0.5000000000000001,
                                           -0.8660254037844384,
                                           -1.0,
                                           -0.8660254037844386,
                                           -0.5000000000000004};
constexpr std::array<double, 12> kCosines = {1.0,
                                             0.8660254037844387,
                                             0.5000000000000001,
                                             6.123233995736766e-17,
                                             -0.4999999999999998,
                                             -0.8660254037844387,
                                             -1.0,
                                             -0.8660254037844386,
                                             -0.5000000000000004,
                                             -1.8369701987210297e-16,
                                             0.5000000000000001,
                                             0.8660254037844384};

Direction direction_of_degrees(int degrees) {
    if (degrees % 30 == 0) {
        const auto i = static_cast<std::size_t>(std::abs(degrees) / 30);
        return {degrees < 0 ? -kSines.at(i) : kSines.at(i), kCosines.at(i)};
    }
    const double angle = degrees * std::numbers::pi / 180.0;
    return {std::sin(angle), std::cos(angle)};
}

// The published generator takes sine and cosine of an angle, so directions straight up, down and left have a
// small error, which rounding up turns into a whole pixel near the upper and left borders.
Direction direction_of(Point p) {
    constexpr double kSineOfPi = kSines[6];
    const double length = std::sqrt(static_cast<double>(p.y * p.y + p.x * p.x));
    return {p.y == 0 && p.x < 0 ? kSineOfPi : p.y / length, p.x == 0 ? kSineOfPi / 2.0 : p.x / length};
}

Point moved(Point p, Direction d, int distance) {
    return {static_cast<int>(std::ceil(p.y + distance * d.sine)),
            static_cast<int>(std::ceil(p.x + distance * d.cosine))};
}

bool is_inside(Point p) {
    return p.y >= 0 && p.y < kSide && p.x >= 0 && p.x < kSide;
}

std::size_t index_of(Point p) {
    return static_cast<std::size_t>(p.y) * kSide + static_cast<std::size_t>(p.x);
}

// Every patch and marker, drawn once.
struct Pieces {
    std::vector<Patch> patches;
    std::vector<Matrix<std::uint8_t>> markers;
};

const Pieces& pieces() {
    static const Pieces all = [] {
        Pieces made;
        for (int y = -kReach; y <= kReach; ++y) {
            for (int x = -kReach; x <= kReach; ++x) made.patches.push_back(make_patch({y, x}));
        }
        for (int i = 0; i < kPixels; ++i) made.markers.push_back(make_marker({i / kSide, i % kSide}));
        return made;
    }();
    return all;
}

const Patch& patch_towards(Direction d) {
    constexpr int kCentre = kReach * kScale;
    const auto end = moved({kCentre, kCentre}, d, kLength * kScale);
    constexpr int kFirst = kCentre - kReach;
    return pieces().patches[static_cast<std::size_t>((end.y - kFirst) * (2 * kReach + 1) + end.x - kFirst)];
}

// A patch on the image.
struct Segment {
    const Patch* patch = nullptr;
    Point start;
};

struct Scene {
    std::array<std::uint8_t, kPixels> mask{};
    std::array<double, kPixels> levels{};  // gray level / 255 x contrast
};

// Calls body(pixel of the image, row and column of the patch) where both overlap.
template <class Body>
void for_each_pixel(const Segment& segment, const Body& body) {
    for (int y = 0; y <= 2 * kReach; ++y) {
        for (int x = 0; x <= 2 * kReach; ++x) {
            const Point p{segment.start.y - kReach + y, segment.start.x - kReach + x};
            if (is_inside(p)) body(index_of(p), static_cast<std::size_t>(y), static_cast<std::size_t>(x));
        }
    }
}

void draw(const Segment& segment, double contrast, Scene& scene) {
    for_each_pixel(segment, [&](std::size_t pixel, std::size_t y, std::size_t x) {
        const auto level = static_cast<float>(segment.patch->line(y, x) / 255.0 * contrast);
        scene.levels[pixel] = std::max<double>(scene.levels[pixel], level);
    });
}

void add_to_mask(const Segment& segment, Scene& scene) {
    for_each_pixel(segment, [&](std::size_t pixel, std::size_t y, std::size_t x) {
        scene.mask[pixel] = std::max(scene.mask[pixel], segment.patch->mask(y, x));
    });
}

bool crosses(const Segment& segment, const Scene& scene) {
    bool found = false;
    for_each_pixel(segment, [&](std::size_t pixel, std::size_t y, std::size_t x) {
        found = found || scene.mask[pixel] + segment.patch->mask(y, x) >= kOverlap;
    });
    return found;
}

// One bit per pixel, a word per row.
using Bits = std::array<std::uint32_t, kSide>;

constexpr Bits frame_bits(int width) {
    Bits bits{};
    for (int i = 0; i < kPixels; ++i) {
        const int y = i / kSide;
        const int x = i % kSide;
        if (std::min({y, x, kSide - 1 - y, kSide - 1 - x}) < width)
            bits[static_cast<std::size_t>(y)] |= 1U << static_cast<unsigned>(x);
    }
    return bits;
}

Scene empty_scene() {
    constexpr auto kFrame = frame_bits(1);
    Scene scene;
    for (std::size_t i = 0; i < scene.mask.size(); ++i)
        scene.mask[i] = ((kFrame[i / kSide] >> (i % kSide)) & 1U) != 0 ? 255 : 0;
    return scene;
}

Bits blocked_pixels(const Scene& scene) {
    Bits bits{};
    for (std::size_t i = 0; i < scene.mask.size(); ++i)
        bits[i / kSide] |= static_cast<std::uint32_t>(scene.mask[i] > kMostFree) << (i % kSide);
    return bits;
}

std::uint32_t count_free(const Bits& blocked) {
    std::uint32_t count = 0;
    for (const auto row : blocked) count += static_cast<std::uint32_t>(std::popcount(~row));
    return count;
}

// Blocks every pixel from which one of the offsets leads to a blocked pixel.
Bits dilated(const Bits& bits, std::span<const Point> offsets) {
    Bits out{};
    for (const auto offset : offsets) {
        for (int y = std::max(0, -offset.y); y < std::min(kSide, kSide - offset.y); ++y) {
            const auto from = y + offset.y;
            const auto row = bits[static_cast<std::size_t>(from)];
            out[static_cast<std::size_t>(y)] |= offset.x >= 0 ? row >> offset.x : row << -offset.x;
        }
    }
    return out;
}

Point nth_free(const Bits& blocked, std::uint32_t n) {
    for (int i = 0;; ++i) {
        const bool is_free = ((blocked[static_cast<std::size_t>(i / kSide)] >> (i % kSide)) & 1U) == 0;
        if (is_free && n-- == 0) return {i / kSide, i % kSide};
    }
}

// A contour while it grows.
struct Contour {
    Point origin;  // first and last point
    Point end;
    Point pivot;
    Direction direction;
    Segment last;
};

Direction random_direction(ExampleRandom& random) {
    return direction_of_degrees(static_cast<int>(random.below(360)) - 180);
}

// The first segment, from tail; none if it leaves the image.
std::optional<Contour> first_segment(Point tail, Direction direction) {
    const auto head = moved(tail, direction, kLength);
    const auto pivot = moved(head, reversed(direction), kLength + kMargin);
    if (!is_inside(head) || !is_inside(pivot)) return std::nullopt;
    return Contour{.origin = tail,
                   .end = tail,
                   .pivot = pivot,
                   .direction = direction,
                   .last = {.patch = &patch_towards(direction), .start = tail}};
}

// A first segment on free pixels.
std::optional<Contour> seed_contour(const Bits& blocked, ExampleRandom& random) {
    for (int i = 0; i < kTries; ++i) {
        const auto direction = random_direction(random);
        const auto& patch = patch_towards(direction);
        if (!patch.can_start) return std::nullopt;
        const auto around = dilated(blocked, patch.blocked);
        const auto count = count_free(around);
        if (count == 0) return std::nullopt;
        if (auto contour = first_segment(nth_free(around, random.below(count)), direction)) return contour;
    }
    return std::nullopt;
}

// A first segment at a fixed distance from the given point.
std::optional<Contour> seed_near(Point tail, ExampleRandom& random) {
    for (int i = 0; i < kTries; ++i) {
        const auto direction = random_direction(random);
        const auto away = direction_of_degrees(static_cast<int>(random.below(360)));
        const Point near{static_cast<int>(std::nearbyint(tail.y + kSeedDistance * away.sine)),
                         static_cast<int>(std::nearbyint(tail.x + kSeedDistance * away.cosine))};
        if (auto contour = first_segment(near, direction)) return contour;
    }
    return std::nullopt;
}

// Ends of the next segment and their weights.
struct Candidates {
    std::vector<Point> heads;
    std::vector<double> weights;
    double total = 0.0;
};

// The largest mask value of a pixel and its four neighbours.
int mask_around(const Scene& scene, Point p) {
    int most = 0;
    for (const Point q :
         {p, Point{p.y - 1, p.x}, Point{p.y + 1, p.x}, Point{p.y, p.x - 1}, Point{p.y, p.x + 1}}) {
        if (is_inside(q)) most = std::max<int>(most, scene.mask[index_of(q)]);
    }
    return most;
}

// Points on a circle around the pivot, one per unit of arc.
struct CirclePoint {
    double y;
    double x;
};
constexpr int kRadius = kLength + kMargin;

const std::vector<CirclePoint>& circle() {
    static const std::vector<CirclePoint> points = [] {
        std::vector<CirclePoint> made;
        for (int k = 0; k < 2.0 * std::numbers::pi * kRadius; ++k) {
            const double angle = static_cast<double>(k) / kRadius;
            made.push_back({kRadius * std::sin(angle), kRadius * std::cos(angle)});
        }
        return made;
    }();
    return points;
}

// Pixels on the circle; straight on is likely, turns of 90 degrees and pixels of other segments are
// impossible.
Candidates candidates(const Scene& scene, Point pivot, Direction direction) {
    Candidates found;
    for (const auto& point : circle()) {
        const Point head{static_cast<int>(std::floor(pivot.y + point.y)),
                         static_cast<int>(std::floor(pivot.x + point.x))};
        const auto same = [head](Point p) { return p.y == head.y && p.x == head.x; };
        if (!is_inside(head) || std::ranges::any_of(found.heads, same)) continue;
        const auto turned = direction_of({head.y - pivot.y, head.x - pivot.x});
        const double ahead = std::max(turned.sine * direction.sine + turned.cosine * direction.cosine, 0.0);
        found.heads.push_back(head);
        found.weights.push_back(ahead * ahead * (255 - mask_around(scene, head)) / 255.0);
        found.total += found.weights.back();
    }
    return found;
}

std::size_t draw_index(const Candidates& choice, ExampleRandom& random) {
    double rest = random.uniform() * choice.total;
    for (std::size_t i = 0; i + 1 < choice.weights.size(); ++i) {
        rest -= choice.weights[i];
        if (rest < 0.0) return i;
    }
    return choice.weights.size() - 1;
}

// Adds a segment. The mask receives the previous segment: the newest one never blocks.
bool extend(double contrast, ExampleRandom& random, Scene& scene, Contour& contour) {
    const auto pivot = moved(contour.pivot, contour.direction, kLength + 2 * kMargin);
    const auto choice = candidates(scene, pivot, contour.direction);
    if (choice.total < 1e-4) return false;
    for (int i = 0; i < kTries; ++i) {
        const auto head = choice.heads[draw_index(choice, random)];
        const auto direction = direction_of({head.y - pivot.y, head.x - pivot.x});
        const Segment segment{.patch = &patch_towards(reversed(direction)), .start = head};
        if (crosses(segment, scene)) continue;
        draw(segment, contrast, scene);
        add_to_mask(contour.last, scene);
        contour.end = head;
        contour.pivot = pivot;
        contour.direction = direction;
        contour.last = segment;
        return true;
    }
    return false;
}

using Targets = std::array<Contour, 2>;

// Both contours on an empty scene; none if one gets stuck. The first starts near the centre.
std::optional<Targets> draw_targets(ExampleRandom& random, Scene& scene) {
    constexpr auto kAllButCentre = frame_bits(2 * kSeedDistance);
    const auto first = seed_contour(kAllButCentre, random);
    if (!first) return std::nullopt;
    const auto second = seed_near(first->origin, random);
    if (!second) return std::nullopt;
    scene = empty_scene();
    Targets targets = {*first, *second};
    for (const auto& target : targets) draw(target.last, kContourContrast, scene);
    for (int i = 1; i < kSegments; ++i) {
        for (auto& target : targets) {
            if (!extend(kContourContrast, random, scene, target)) return std::nullopt;
        }
    }
    add_to_mask(targets[1].last, scene);  // not of the first contour, as published
    return targets;
}

bool draw_distractor(ExampleRandom& random, Scene& scene) {
    const auto blocked = blocked_pixels(scene);
    if (count_free(blocked) < 0.01 * kPixels) return false;
    auto contour = seed_contour(blocked, random);
    if (!contour) return false;
    Scene changed = scene;
    draw(contour->last, kDistractorContrast, changed);
    for (int i = 1; i < kDistractorSegments; ++i) {
        if (!extend(kDistractorContrast, random, changed, *contour)) return false;
    }
    add_to_mask(contour->last, changed);
    scene = changed;
    return true;
}

void draw_marker(Point centre, Scene& scene) {
    const auto marker = pieces().markers[index_of(centre)].values();
    for (std::size_t i = 0; i < marker.size(); ++i)
        scene.levels[i] = std::max(scene.levels[i], marker[i] / 255.0);
}

// The darkest pixel becomes 0, the brightest 255. Levels are rounded like the published generator's, because
// many values are halfway between two gray levels.
void stretch(const Scene& scene, std::span<std::uint8_t> pixels) {
    const auto [least, most] = std::ranges::minmax(scene.levels);
    const double scale = 255.0 / (most - least);
    for (std::size_t i = 0; i < pixels.size(); ++i)
        // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and the bits of the published images
        pixels[i] = static_cast<std::uint8_t>((scene.levels[i] - least) * scale + 0.5);
}

}  // namespace
}  // namespace pathfinder

GeneratedExample generate_pathfinder(ExampleRandom& random, std::span<std::uint8_t> tokens) {
    using namespace pathfinder;
    Scene scene;
    auto targets = draw_targets(random, scene);
    while (!targets) targets = draw_targets(random, scene);
    for (int i = 0; i < kDistractors; ++i) {
        // A distractor without room is left out.
        for (int t = 0; t < kDistractorTries && !draw_distractor(random, scene); ++t) {
        }
    }
    const auto label = random.below(2);
    const auto from = random.below(2);
    draw_marker(targets->at(from).origin, scene);
    draw_marker(targets->at(label == 1 ? from : 1 - from).end, scene);
    stretch(scene, tokens);
    return {.length = kPixels, .label = static_cast<std::uint8_t>(label)};
}

}  // namespace imka
