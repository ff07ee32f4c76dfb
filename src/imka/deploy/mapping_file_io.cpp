// Reads and writes mapping files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/mapping_file.hpp"

namespace imka {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{1} << 26U;
constexpr std::size_t kMostRegions = std::size_t{1} << 20U;
constexpr std::size_t kMostNumber = std::size_t{1} << 40U;

// Side of the square of cores of one chip.
std::size_t square_side(const CoreGrid& grid) {
    auto side = static_cast<std::size_t>(std::sqrt(static_cast<double>(grid.cores)));
    while (side * side < grid.cores) ++side;
    return side;
}

struct CorePlace {
    std::size_t row = 0;
    std::size_t col = 0;
};

CorePlace place_of(const CoreGrid& grid, std::size_t core) {
    const auto side = square_side(grid);
    const auto chip = core / grid.cores;
    const auto local = core % grid.cores;
    return {chip * side + local / side, local % side};
}

// nullopt if no chip has such a core.
std::optional<std::size_t> core_at(const CoreGrid& grid, const CorePlace& place) {
    const auto side = square_side(grid);
    const auto local = place.row % side * side + place.col;
    if (place.col >= side || local >= grid.cores) return std::nullopt;
    return place.row / side * grid.cores + local;
}

Json range_json(std::size_t first, std::size_t count) {
    return Json::array({first, first + count});
}

Json region_json(const Region& region) {
    Json j{{"tile_col_region", range_json(region.col, region.tile.cols)},
           {"tile_row_region", range_json(region.row, region.tile.rows)},
           {"weight_col_region", range_json(region.tile.first_col, region.tile.cols)},
           {"weight_row_region", range_json(region.tile.first_row, region.tile.rows)}};
    if (region.replica > 0) j["replica"] = region.replica;
    return j;
}

// Rejects duplicate keys; the parser would keep the last one.
class KeyCheck {
public:
    explicit KeyCheck(std::string_view where) : where_(where) {}
    bool operator()(int /*depth*/, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) keys_.emplace_back();
        if (event == Json::parse_event_t::object_end) keys_.pop_back();
        if (event == Json::parse_event_t::key && !keys_.back().insert(value.get<std::string>()).second)
            fail(ErrorCode::bad_data,
                 fmt::format("{}: duplicate key {}", where_, in_quotes(value.get<std::string>())));
        return true;
    }

private:
    std::string_view where_;
    std::vector<std::set<std::string>> keys_;
};

class Reader {
public:
    Reader(const CoreGrid& grid, std::string_view where) : where_(where) { mapping_.grid = grid; }

    Mapping read(std::string_view text) {
        const auto root = parse(text);
        if (!root.is_object() || root.empty())
            fail_at("the file", "expected an object with one key per layer");
        for (const auto& [name, layer] : root.items()) read_layer(name, layer);
        auto& regions = mapping_.regions;
        std::ranges::sort(regions, {}, [](const Region& r) {
            return std::tuple(r.matrix, r.replica, r.tile.first_col, r.tile.first_row);
        });
        std::size_t last = 0;
        for (const auto& r : regions) last = std::max<std::size_t>(last, r.core);
        mapping_.grid.chips = last / mapping_.grid.cores + 1;
        return std::move(mapping_);
    }

private:
    [[noreturn]] void fail_at(std::string_view path, std::string_view what) const {
        fail(ErrorCode::bad_data, fmt::format("{}: {}: {}", where_, path, what));
    }

    Json parse(std::string_view text) const {
        KeyCheck check(where_);
        try {
            return Json::parse(text, std::ref(check));
        } catch (const Json::parse_error& e) {
            fail(ErrorCode::bad_data, fmt::format("{}: invalid JSON near byte {}", where_, e.byte));
        } catch (const Json::exception&) {
            fail(ErrorCode::bad_data, fmt::format("{}: invalid JSON", where_));
        }
    }

    std::size_t number(const Json& value, const std::string& path, std::size_t least,
                       std::size_t most) const {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
            value.get<std::uint64_t>() > most)
            fail_at(path,
                    fmt::format("{}; expected a whole number from {} to {}", shown(value), least, most));
        return value.get<std::size_t>();
    }

    static std::string shown(const Json& value) {
        return in_quotes(value.dump(-1, ' ', true, Json::error_handler_t::replace));
    }

    void check_keys(const Json& object, const std::string& path,
                    std::initializer_list<std::string_view> known) const {
        if (!object.is_object()) fail_at(path, fmt::format("{}; expected an object", shown(object)));
        for (const auto& [key, value] : object.items()) {
            if (std::ranges::find(known, key) == known.end())
                fail_at(path, fmt::format("unknown key {}; known: {}", in_quotes(key),
                                          join_names(std::span(known.begin(), known.size()))));
        }
    }

    const Json& member(const Json& object, const std::string& path, const char* key) const {
        const auto found = object.find(key);
        if (found == object.end()) fail_at(path, fmt::format("no '{}'", key));
        return *found;
    }

    std::string text(const Json& object, const std::string& path, const char* key) const {
        const auto& value = member(object, path, key);
        if (value.is_null()) return {};
        if (!value.is_string()) fail_at(path + "." + key, fmt::format("{}; expected text", shown(value)));
        return value.get<std::string>();
    }

    void read_layer(const std::string& name, const Json& layer) {
        const auto path = in_quotes(name);
        check_keys(layer, path, {"type", "weight", "bias", "tiles_map", "n_shared", "vectors"});
        MappedMatrix matrix;
        matrix.shape.name = name;
        matrix.type = text(layer, path, "type");
        matrix.weight = text(layer, path, "weight");
        matrix.bias = text(layer, path, "bias");
        matrix.shape.calls = number(member(layer, path, "n_shared"), path + ".n_shared", 1, kMostNumber);
        if (layer.contains("vectors"))
            matrix.shape.vectors = number(layer["vectors"], path + ".vectors", 1, kMostNumber);
        mapping_.matrices.push_back(std::move(matrix));
        const auto& cores = member(layer, path, "tiles_map");
        if (!cores.is_object()) fail_at(path + ".tiles_map", "expected an object of core rows");
        for (const auto& [row, columns] : cores.items()) {
            if (!columns.is_object())
                fail_at(path + ".tiles_map",
                        fmt::format("row {}: expected an object of core columns", in_quotes(row)));
            for (const auto& [col, tiles] : columns.items()) read_core(path, row, col, tiles);
        }
        if (mapping_.matrices.back().shape.inputs == 0) fail_at(path, "no tiles");
    }

    std::size_t core_number(const std::string& path, const std::string& row, const std::string& col) const {
        const auto digits = [](const std::string& s) {
            return !s.empty() && s.size() <= 6 &&
                   std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; });
        };
        std::optional<std::size_t> core;
        if (digits(row) && digits(col)) core = core_at(mapping_.grid, {std::stoul(row), std::stoul(col)});
        if (!core)
            fail_at(path, fmt::format("no core in row {}, column {}; a chip has {} columns", in_quotes(row),
                                      in_quotes(col), square_side(mapping_.grid)));
        return *core;
    }

    void read_core(const std::string& path, const std::string& row, const std::string& col,
                   const Json& tiles) {
        const auto core = core_number(path, row, col);
        const auto place = fmt::format("{}.tiles_map.{}.{}", path, row, col);
        if (!tiles.is_array()) fail_at(place, fmt::format("{}; expected a list of tiles", shown(tiles)));
        for (std::size_t t = 0; t < tiles.size(); ++t)
            read_tile(fmt::format("{}.{}", place, t), core, tiles[t]);
    }

    // First number and count of a range [first, end).
    std::pair<std::size_t, std::size_t> range(const Json& tile, const std::string& path, const char* key,
                                              std::size_t most) const {
        const auto& value = member(tile, path, key);
        if (!value.is_array() || value.size() != 2)
            fail_at(path + "." + key, fmt::format("{}; expected [first, end]", shown(value)));
        const auto first = number(value[0], path + "." + key, 0, most - 1);
        const auto end = number(value[1], path + "." + key, first + 1, most);
        return {first, end - first};
    }

    void read_tile(const std::string& path, std::size_t core, const Json& tile) {
        check_keys(
            tile, path,
            {"tile_col_region", "tile_row_region", "weight_col_region", "weight_row_region", "replica"});
        const auto [row, rows] = range(tile, path, "tile_row_region", mapping_.grid.rows);
        const auto [col, cols] = range(tile, path, "tile_col_region", mapping_.grid.cols);
        const auto [first_row, weight_rows] = range(tile, path, "weight_row_region", kMostSide);
        const auto [first_col, weight_cols] = range(tile, path, "weight_col_region", kMostSide);
        if (rows != weight_rows || cols != weight_cols)
            fail_at(path,
                    fmt::format("{} x {} cells for {} x {} weights", rows, cols, weight_rows, weight_cols));
        const std::size_t replica =
            tile.contains("replica") ? number(tile["replica"], path + ".replica", 0, 65535) : 0;
        auto& matrix = mapping_.matrices.back();
        matrix.replicas = std::max(matrix.replicas, replica + 1);
        matrix.shape.inputs = std::max(matrix.shape.inputs, first_row + rows);
        matrix.shape.outputs = std::max(matrix.shape.outputs, first_col + cols);
        if (mapping_.regions.size() >= kMostRegions)
            fail_at(path, fmt::format("more than {} tiles", kMostRegions));
        mapping_.regions.push_back({.matrix = static_cast<std::uint32_t>(mapping_.matrices.size() - 1),
                                    .replica = static_cast<std::uint32_t>(replica),
                                    .core = static_cast<std::uint32_t>(core),
                                    .row = static_cast<std::uint32_t>(row),
                                    .col = static_cast<std::uint32_t>(col),
                                    .tile = {first_row, rows, first_col, cols}});
    }

    std::string_view where_;
    Mapping mapping_;
};

}  // namespace

std::string mapping_text(const Mapping& mapping) {
    Json root = Json::object();
    for (const auto& m : mapping.matrices) {
        auto& layer = root[m.shape.name] = {
            {"type", m.type}, {"weight", m.weight}, {"bias", m.bias}, {"tiles_map", Json::object()}};
        layer["n_shared"] = m.shape.calls;
        if (m.shape.vectors > 1) layer["vectors"] = m.shape.vectors;
    }
    for (const auto& region : mapping.regions) {
        const auto place = place_of(mapping.grid, region.core);
        root[mapping.matrices.at(region.matrix).shape.name]["tiles_map"][std::to_string(place.row)]
            [std::to_string(place.col)]
                .push_back(region_json(region));
    }
    try {
        return root.dump(2) + "\n";
    } catch (const Json::exception&) {
        fail(ErrorCode::bad_data, "the name of a matrix is not UTF-8 text, so the mapping cannot be saved");
    }
}

Mapping parse_mapping(std::string_view text, const CoreGrid& grid, std::string_view where) {
    return Reader(grid, where).read(text);
}

void save_mapping(const std::filesystem::path& path, const Mapping& mapping) {
    write_file_atomic(path, mapping_text(mapping));
}

Mapping load_mapping(const std::filesystem::path& path, const CoreGrid& grid) {
    return parse_mapping(read_file(path, kMostBytes), grid, path.string());
}

}  // namespace imka
