// Images of Pathfinder: two contours of 14 segments, five of 4 segments that distract, two markers. The label
// says whether the markers are at the two ends of the same contour.
//
// Directions are unit vectors and moved points are rounded up, as in the published generator. Every value
// that decides is exact or far from its limit, so images do not depend on the machine's mathematical library.
#include "imka/data/lra/pathfinder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>

#include "imka/data/lra/generate.hpp"

namespace imka {
namespace pathfinder {
namespace {

constexpr int kMargin = 1;
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
// Contrasts in half gray levels: 0.75 x 2 of contours, 2 of distractors, 1 of markers.
constexpr int kContourContrast = 3;
constexpr int kDistractorContrast = 4;
constexpr int kMarkerContrast = 2;

struct Direction {
    double sine = 0.0;
    double cosine = 0.0;
};

Direction reversed(Direction d) {
    return {-d.sine, -d.cosine};
}

// Exact where the sine is 0, 1/2 or 1: there a rounding error would move points.
double sine_of_degrees(int degrees) {
    const double sine = std::sin(degrees * std::numbers::pi / 180.0);
    const double halves = std::round(2.0 * sine) / 2.0;
    return std::abs(sine - halves) < 1e-9 ? halves : sine;
}

Direction direction_of_degrees(int degrees) {
    return {sine_of_degrees(degrees), sine_of_degrees(degrees + 90)};
}

Direction direction_of(Point p) {
    const double length = std::sqrt(static_cast<double>(p.y * p.y + p.x * p.x));
    return {p.y / length, p.x / length};
}

Point moved(Point p, Direction d, int distance) {
    return {static_cast<int>(std::ceil(p.y + distance * d.sine)),
            static_cast<int>(std::ceil(p.x + distance * d.cosine))};
}

bool is_inside(Point p) {
    return p.y >= 0 && p.y < kSide && p.x >= 0 && p.x < kSide;
}

std::size_t index_of(Point p) {
    return static_cast<std::size_t>(p.y * kSide + p.x);
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
    const auto end = moved({}, d, kLength * kScale);
    return pieces().patches[static_cast<std::size_t>((end.y + kReach) * (2 * kReach + 1) + end.x + kReach)];
}

// A patch on the image.
struct Segment {
    const Patch* patch = nullptr;
    Point start;
};

struct Scene {
    std::array<std::uint8_t, kPixels> mask{};
    std::array<std::uint16_t, kPixels> levels{};  // gray level x contrast x 2
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

void draw(const Segment& segment, int contrast, Scene& scene) {
    for_each_pixel(segment, [&](std::size_t pixel, std::size_t y, std::size_t x) {
        const auto level = static_cast<std::uint16_t>(contrast * segment.patch->line(y, x));
        scene.levels[pixel] = std::max(scene.levels[pixel], level);
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

void block_frame(int width, Scene& scene) {
    for (int i = 0; i < kPixels; ++i) {
        const int y = i / kSide;
        const int x = i % kSide;
        if (std::min({y, x, kSide - 1 - y, kSide - 1 - x}) < width)
            scene.mask[static_cast<std::size_t>(i)] = 255;
    }
}

// One bit per pixel, a word per row.
using Bits = std::array<std::uint32_t, kSide>;

Bits blocked_pixels(const Scene& scene) {
    Bits bits{};
    for (std::size_t i = 0; i < scene.mask.size(); ++i) {
        if (scene.mask[i] > kMostFree) bits[i / kSide] |= 1U << (i % kSide);
    }
    return bits;
}

std::uint32_t count_free(const Bits& blocked) {
    std::uint32_t count = 0;
    for (const auto row : blocked) count += static_cast<std::uint32_t>(std::popcount(~row));
    return count;
}

// Blocks the pixels from which one of the offsets is blocked.
Bits dilated(const Bits& bits, std::span<const Point> offsets) {
    Bits out{};
    for (const auto offset : offsets) {
        for (int y = std::max(0, -offset.y); y < std::min(kSide, kSide - offset.y); ++y) {
            const auto row = bits[static_cast<std::size_t>(y + offset.y)];
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
std::optional<Contour> seed_contour(const Scene& scene, ExampleRandom& random) {
    const auto blocked = blocked_pixels(scene);
    for (int i = 0; i < kTries; ++i) {
        const auto direction = random_direction(random);
        const auto around = dilated(blocked, patch_towards(direction).blocked);
        const auto count = count_free(around);
        if (count == 0) return std::nullopt;
        if (auto contour = first_segment(nth_free(around, random.below(count)), direction)) return contour;
    }
    return std::nullopt;
}

// A first segment at the given distance of another.
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

// Pixels on a circle around the pivot, one per unit of arc; straight on is likely, turns of 90 degrees and
// pixels of other segments are impossible.
Candidates candidates(const Scene& scene, Point pivot, Direction direction) {
    constexpr int kRadius = kLength + kMargin;
    Candidates found;
    for (int k = 0; k < 2.0 * std::numbers::pi * kRadius; ++k) {
        const double angle = static_cast<double>(k) / kRadius;
        const double y = pivot.y + kRadius * std::sin(angle);
        const double x = pivot.x + kRadius * std::cos(angle);
        const Point head{static_cast<int>(std::floor(y)), static_cast<int>(std::floor(x))};
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

// Adds a segment. The mask receives the previous one: the newest never blocks.
bool extend(int contrast, ExampleRandom& random, Scene& scene, Contour& contour) {
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

// Both contours on an empty scene; none if one gets stuck.
std::optional<Targets> draw_targets(ExampleRandom& random, Scene& scene) {
    scene = {};
    block_frame(2 * kSeedDistance, scene);
    const auto first = seed_contour(scene, random);
    if (!first) return std::nullopt;
    const auto second = seed_near(first->origin, random);
    if (!second) return std::nullopt;
    scene = {};
    block_frame(1, scene);
    Targets targets = {*first, *second};
    for (const auto& target : targets) draw(target.last, kContourContrast, scene);
    for (int i = 1; i < kSegments; ++i) {
        for (auto& target : targets) {
            if (!extend(kContourContrast, random, scene, target)) return std::nullopt;
        }
    }
    add_to_mask(targets[1].last, scene);  // not the first one's, as published
    return targets;
}

bool draw_distractor(ExampleRandom& random, Scene& scene) {
    if (count_free(blocked_pixels(scene)) < 0.01 * kPixels) return false;
    auto contour = seed_contour(scene, random);
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
        scene.levels[i] = std::max(scene.levels[i], static_cast<std::uint16_t>(kMarkerContrast * marker[i]));
}

// The darkest pixel becomes 0, the brightest 255.
void stretch(const Scene& scene, std::span<std::uint8_t> pixels) {
    const auto [least, most] = std::ranges::minmax(scene.levels);
    const int range = most - least;
    for (std::size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = static_cast<std::uint8_t>((2 * 255 * (scene.levels[i] - least) + range) / (2 * range));
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
