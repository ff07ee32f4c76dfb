#include "imka/deploy/floor_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace imka {
namespace {

using CoreRegions = std::map<std::uint32_t, std::vector<Region>>;

CoreRegions by_core(const Mapping& mapping) {
    CoreRegions cores;
    for (const auto& r : mapping.regions) cores[r.core].push_back(r);
    return cores;
}

std::string tile_text(const Region& r) {
    return fmt::format("[{}:{}, {}:{}]", r.tile.first_row, r.tile.first_row + r.tile.rows, r.tile.first_col,
                       r.tile.first_col + r.tile.cols);
}

std::string replica_text(const Mapping& mapping, const Region& r) {
    return mapping.matrices[r.matrix].replicas > 1 ? fmt::format(" #{}", r.replica) : "";
}

std::string region_label(const Mapping& mapping, const Region& r) {
    return mapping.matrices[r.matrix].shape.name + replica_text(mapping, r);
}

std::string core_title(const Mapping& mapping, const CoreUse& use) {
    const auto chip =
        mapping.grid.chips > 1 ? fmt::format("chip {}, ", use.core / mapping.grid.cores) : std::string();
    return fmt::format("{}core {}: {:.1f} %", chip, use.core % mapping.grid.cores, 100.0 * use.utilisation);
}

// Sizes of the picture, in pixels.
struct Layout {
    double side = 0.0;  // of the longer side of a core
    double width = 0.0;
    double height = 0.0;
    std::size_t columns = 0;
    static constexpr double kGap = 16.0;
    static constexpr double kTitle = 18.0;
    static constexpr double kTop = 56.0;
};

Layout layout_of(const CoreGrid& grid, std::size_t cores) {
    Layout out;
    out.columns = std::clamp<std::size_t>(
        static_cast<std::size_t>(std::ceil(std::sqrt(1.6 * static_cast<double>(cores)))), 1, 16);
    out.columns = std::min(out.columns, std::max<std::size_t>(cores, 1));
    out.side = out.columns <= 4 ? 280.0 : std::max(104.0, 1200.0 / static_cast<double>(out.columns));
    const auto longest = static_cast<double>(std::max(grid.rows, grid.cols));
    out.width = out.side * static_cast<double>(grid.cols) / longest;
    out.height = out.side * static_cast<double>(grid.rows) / longest;
    return out;
}

// A label that fits the region, rotated in narrow regions; empty if there is no room.
std::string label_svg(const std::string& label, double x, double y, double w, double h) {
    constexpr double kChar = 5.6;
    constexpr double kHigh = 11.0;
    const bool turned = h > w && static_cast<double>(label.size()) * kChar > w;
    const auto room = static_cast<std::size_t>(std::max(0.0, (turned ? h : w) - 4.0) / kChar);
    if ((turned ? w : h) < kHigh || room < 3) return {};
    const auto text =
        label.size() <= room ? label : fmt::format("..{}", label.substr(label.size() - room + 2));
    const double cx = x + w / 2;
    const double cy = y + h / 2;
    const auto turn = turned ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", cx, cy) : "";
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"l\"{}>{}</text>\n", cx, cy + 3.5, turn,
                       xml_escaped(text));
}

std::string region_svg(const Mapping& mapping, const Region& r, const Layout& layout, double x, double y) {
    const double sx = layout.width / static_cast<double>(mapping.grid.cols);
    const double sy = layout.height / static_cast<double>(mapping.grid.rows);
    const double left = x + sx * r.col;
    const double top = y + sy * r.row;
    const double w = sx * static_cast<double>(r.tile.cols);
    const double h = sy * static_cast<double>(r.tile.rows);
    const auto tip = fmt::format("{} {}: {} x {} at row {}, column {}", region_label(mapping, r),
                                 tile_text(r), r.tile.rows, r.tile.cols, r.row, r.col);
    return fmt::format(
               "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
               "class=\"r\"><title>{}</title></rect>\n",
               left, top, w, h, matrix_colour(r.matrix), xml_escaped(tip)) +
           label_svg(region_label(mapping, r), left, top, w, h);
}

std::string legend_svg(const Mapping& mapping, double width, double& y) {
    constexpr double kEntry = 250.0;
    const auto columns =
        std::max<std::size_t>(1, static_cast<std::size_t>((width - 2 * Layout::kGap) / kEntry));
    std::string out;
    for (std::size_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto& shape = mapping.matrices[m].shape;
        const double x = Layout::kGap + kEntry * static_cast<double>(m % columns);
        if (m > 0 && m % columns == 0) y += 18.0;
        auto name = fmt::format("{} ({} x {})", shape.name, shape.inputs, shape.outputs);
        if (name.size() > 38) name = fmt::format("..{}", name.substr(name.size() - 36));
        out += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\" class=\"r\"/>"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"t\">{}</text>\n",
            x, y, matrix_colour(m), x + 18.0, y + 10.0, xml_escaped(name));
    }
    y += 30.0;
    return out;
}

constexpr std::size_t kLines = 16;
constexpr std::size_t kColumns = 32;

// The region to show for a character: the one at its middle, or else any region that it touches.
std::optional<std::size_t> shown_region(const std::vector<Region>& regions, const Tile& cells) {
    std::optional<std::size_t> touched;
    const auto row = cells.first_row + cells.rows / 2;
    const auto col = cells.first_col + cells.cols / 2;
    for (std::size_t n = 0; n < regions.size(); ++n) {
        const auto& r = regions[n];
        const auto end_row = r.row + r.tile.rows;
        const auto end_col = r.col + r.tile.cols;
        if (row >= r.row && row < end_row && col >= r.col && col < end_col) return n;
        if (cells.first_row < end_row && r.row < cells.first_row + cells.rows && cells.first_col < end_col &&
            r.col < cells.first_col + cells.cols)
            touched = touched.value_or(n);
    }
    return touched;
}

std::vector<std::string> core_picture(const CoreGrid& grid, const std::vector<Region>& regions) {
    std::vector<std::string> lines(kLines, std::string(kColumns, '.'));
    for (std::size_t y = 0; y < kLines; ++y) {
        for (std::size_t x = 0; x < kColumns; ++x) {
            const auto row = y * grid.rows / kLines;
            const auto col = x * grid.cols / kColumns;
            const Tile cells{row, std::max<std::size_t>(1, (y + 1) * grid.rows / kLines - row), col,
                             std::max<std::size_t>(1, (x + 1) * grid.cols / kColumns - col)};
            if (const auto n = shown_region(regions, cells)) lines[y][x] = picture_letter(*n);
        }
    }
    return lines;
}

// A matrix with its regions.
struct NamedPlace {
    MappedMatrix matrix;
    std::vector<Region> regions;
    std::vector<Tile> tiles() const {  // of a copy
        std::vector<Tile> list;
        for (const auto& r : regions) {
            if (r.replica == 0) list.push_back(r.tile);
        }
        return list;
    }
};

std::map<std::string, NamedPlace> by_name(const Mapping& mapping) {
    std::map<std::string, NamedPlace> names;
    for (const auto& m : mapping.matrices) names[m.shape.name].matrix = m;
    for (auto r : mapping.regions) {
        const auto& name = mapping.matrices[r.matrix].shape.name;
        r.matrix = 0;  // matrix numbers may differ
        names[name].regions.push_back(r);
    }
    return names;
}

std::string place_text(const Region& r) {
    return fmt::format("core {} ({}, {})", r.core, r.row, r.col);
}

void compare_matrices(const std::string& name, const NamedPlace& before, const NamedPlace& after,
                      std::vector<std::string>& lines) {
    const auto count = lines.size();
    const auto compare = [&](auto a, auto b, std::string_view what) {
        if (a != b) lines.push_back(fmt::format("{}: {} {} -> {}", name, what, a, b));
    };
    const auto& a = before.matrix;
    const auto& b = after.matrix;
    compare(fmt::format("{} x {}", a.shape.inputs, a.shape.outputs),
            fmt::format("{} x {}", b.shape.inputs, b.shape.outputs), "size");
    compare(a.shape.calls, b.shape.calls, "calls");
    compare(a.shape.vectors, b.shape.vectors, "vectors per call");
    compare(a.replicas, b.replicas, "copies");
    const auto old_tiles = before.tiles();
    const auto new_tiles = after.tiles();
    compare(old_tiles.size(), new_tiles.size(), "tiles of a copy");
    if (lines.size() == count && old_tiles != new_tiles)
        lines.push_back(fmt::format("{}: cut at different places", name));
    if (lines.size() > count || before.regions.size() != after.regions.size()) return;
    for (std::size_t k = 0; k < before.regions.size(); ++k) {
        if (before.regions[k] == after.regions[k]) continue;
        lines.push_back(fmt::format("{} {}: {} -> {}", name, tile_text(before.regions[k]),
                                    place_text(before.regions[k]), place_text(after.regions[k])));
    }
}

double busiest_products(const Mapping& mapping) {
    double most = 0.0;
    for (const auto& use : core_uses(mapping)) most = std::max(most, use.products);
    return most;
}

}  // namespace

// The lightness alternates every 8 matrices.
std::string matrix_colour(std::size_t matrix) {
    const auto hue = std::fmod(static_cast<double>(matrix) * 137.508, 360.0);
    return fmt::format("hsl({:.0f},55%,{}%)", hue, matrix / 8 % 2 == 0 ? 72 : 60);
}

char picture_letter(std::size_t number) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    return kLetters[number % kLetters.size()];
}

std::string xml_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                // XML has no other control characters.
                out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
        }
    }
    return out;
}

std::string floor_plan_svg(const Mapping& mapping, const std::string& title) {
    const auto cores = by_core(mapping);
    const auto uses = core_uses(mapping);
    const auto layout = layout_of(mapping.grid, cores.size());
    const auto step_x = layout.width + Layout::kGap;
    const auto step_y = layout.height + Layout::kGap + Layout::kTitle;
    const auto width = std::max(
        560.0, Layout::kGap + step_x * static_cast<double>(std::max<std::size_t>(1, layout.columns)));
    std::string body;
    std::size_t n = 0;
    for (const auto& [core, regions] : cores) {
        const auto row = n / layout.columns;
        const double x = Layout::kGap + step_x * static_cast<double>(n % layout.columns);
        const double y = Layout::kTop + Layout::kTitle + step_y * static_cast<double>(row);
        body += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"t\">{}</text>\n", x, y - 5.0,
                            core_title(mapping, uses[n]));
        body +=
            fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"c\"/>\n",
                        x, y, layout.width, layout.height);
        for (const auto& r : regions) body += region_svg(mapping, r, layout, x, y);
        ++n;
    }
    double y =
        Layout::kTop + step_y * std::ceil(static_cast<double>(n) / static_cast<double>(layout.columns)) + 8;
    const auto legend = legend_svg(mapping, width, y);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\">\n"
        "<style>.t{{font-size:12px;fill:#222}}.l{{font-size:10px;fill:#111;text-anchor:middle}}"
        ".r{{stroke:#333;stroke-width:.5}}.c{{fill:#f4f4f4;stroke:#888}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"16\">{3}</text>\n"
        "<text x=\"{2}\" y=\"42\" class=\"t\">rows of a core are inputs, columns are outputs; {4} of {5} x "
        "{6}; "
        "{7:.1f} % of their cells in use</text>\n{8}{9}</svg>\n",
        width, y, Layout::kGap, xml_escaped(title),
        cores.size() == 1 ? "1 core" : fmt::format("{} cores", cores.size()), mapping.grid.rows,
        mapping.grid.cols, 100.0 * utilisation(mapping), body, legend);
}

std::string floor_plan_text(const Mapping& mapping) {
    std::string out;
    const auto uses = core_uses(mapping);
    std::size_t n = 0;
    for (const auto& [core, regions] : by_core(mapping)) {
        out += fmt::format("{}, {:.6g} products per inference\n", core_title(mapping, uses[n]),
                           uses[n].products);
        const auto picture = core_picture(mapping.grid, regions);
        for (std::size_t k = 0; k < std::max(kLines, regions.size()); ++k) {
            out += k < kLines ? "  " + picture[k] : std::string(2 + kColumns, ' ');
            if (k < regions.size())
                out += fmt::format("  {} {} {} at ({}, {})", picture_letter(k),
                                   region_label(mapping, regions[k]), tile_text(regions[k]), regions[k].row,
                                   regions[k].col);
            out += "\n";
        }
        out += "\n";
        ++n;
    }
    return out;
}

std::vector<std::string> mapping_differences(const Mapping& before, const Mapping& after) {
    std::vector<std::string> lines;
    if (const auto a = cores_used(before), b = cores_used(after); a != b)
        lines.push_back(fmt::format("cores: {} -> {}", a, b));
    if (const auto a = busiest_products(before), b = busiest_products(after); a != b)
        lines.push_back(fmt::format("busiest core: {:.6g} -> {:.6g} products per inference", a, b));
    const auto old_names = by_name(before);
    const auto new_names = by_name(after);
    for (const auto& [name, placed] : old_names) {
        if (const auto found = new_names.find(name); found == new_names.end()) {
            lines.push_back(fmt::format("{}: only in the first mapping", name));
        } else {
            compare_matrices(name, placed, found->second, lines);
        }
    }
    for (const auto& [name, placed] : new_names) {
        if (!old_names.contains(name)) lines.push_back(fmt::format("{}: only in the second mapping", name));
    }
    return lines;
}

}  // namespace imka
