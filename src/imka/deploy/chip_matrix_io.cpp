#include "imka/deploy/chip_matrix_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/spec/chip_io.hpp"
#include "imka/chip/spec/chip_text.hpp"

namespace imka {
namespace {

constexpr std::string_view kFormat = "imka-chip-matrix";
constexpr std::string_view kSchema = "1";
constexpr std::string_view kChecksum = "sha256";
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostCores = 16384;  // more would not fit the header of a file

// Values of one kind, and what they may be.
struct Range {
    double least = -kInfinity;
    double most = kInfinity;
    bool above = false;  // the least itself is excluded
};
constexpr Range kAny{};
constexpr Range kNotNegative{.least = 0.0};
constexpr Range kPositive{.least = 0.0, .above = true};

std::string range_text(const Range& range) {
    std::string text = "finite";
    if (range.least > -kInfinity) text = fmt::format("{} {}", range.above ? ">" : ">=", range.least);
    if (range.most < kInfinity) text += fmt::format(" and <= {}", range.most);
    return text;
}

template <class T>
void check_values(const std::string& name, std::span<const T> values, const Range& range) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double v = values[i];
        const bool good =
            std::isfinite(v) && (range.above ? v > range.least : v >= range.least) && v <= range.most;
        if (!good)
            fail(ErrorCode::bad_data,
                 fmt::format("tensor '{}': value {} is {}; it must be {}", name, i, v, range_text(range)));
    }
}

// Tensors and texts are taken one by one; what is left at the end does not belong there.
class Reader {
public:
    explicit Reader(TensorFile file) : file_(std::move(file)) {}

    std::string text(const std::string& key) {
        const auto it = file_.metadata.find(key);
        if (it == file_.metadata.end())
            fail(ErrorCode::bad_data, fmt::format("metadata '{}' is missing", key));
        auto value = std::move(it->second);
        file_.metadata.erase(it);
        return value;
    }
    Matrix<float> f32(const std::string& name) { return take(file_.f32, name); }
    Matrix<float> f32(const std::string& name, std::size_t rows, std::size_t cols, const Range& range) {
        return take_checked(file_.f32, name, {rows, cols}, range);
    }
    std::vector<double> f64(const std::string& name, std::size_t count, const Range& range) {
        const auto m = take_checked(file_.f64, name, {1, count}, range);
        return {m.values().begin(), m.values().end()};
    }
    bool has_f64(const std::string& name) const { return file_.f64.contains(name); }
    void done() const {
        const auto extra = [](const auto& map) {
            if (!map.empty())
                fail(ErrorCode::bad_data,
                     fmt::format("'{}' does not belong in this file", map.begin()->first));
        };
        extra(file_.metadata);
        extra(file_.f32);
        extra(file_.f64);
    }

private:
    template <class T>
    static Matrix<T> take(std::map<std::string, Matrix<T>>& tensors, const std::string& name) {
        const auto it = tensors.find(name);
        if (it == tensors.end()) fail(ErrorCode::bad_data, fmt::format("tensor '{}' is missing", name));
        auto matrix = std::move(it->second);
        tensors.erase(it);
        return matrix;
    }
    template <class T>
    static Matrix<T> take_checked(std::map<std::string, Matrix<T>>& tensors, const std::string& name,
                                  std::pair<std::size_t, std::size_t> shape, const Range& range) {
        auto m = take(tensors, name);
        if (m.rows() != shape.first || m.cols() != shape.second)
            fail(ErrorCode::bad_data, fmt::format("tensor '{}' is {} x {}; it must be {} x {}", name,
                                                  m.rows(), m.cols(), shape.first, shape.second));
        check_values<T>(name, std::as_const(m).values(), range);
        return m;
    }

    TensorFile file_;
};

Matrix<double> row_of(const std::vector<double>& values) {
    Matrix<double> row(1, values.size());
    std::copy(values.begin(), values.end(), row.values().begin());
    return row;
}

// One number of each item.
template <class Item>
Matrix<double> row_of(const std::vector<Item>& items, double Item::*number) {
    Matrix<double> row(1, items.size());
    std::transform(items.begin(), items.end(), row.values().begin(),
                   [&](const Item& i) { return i.*number; });
    return row;
}
template <class Item>
void set_each(const std::vector<double>& values, double Item::*number, std::vector<Item>& items) {
    for (std::size_t i = 0; i < values.size(); ++i) items[i].*number = values[i];
}

std::string tile_name(std::size_t tile, std::string_view what) {
    return fmt::format("tile.{}.{}", tile, what);
}
std::string core_name(std::size_t core, std::string_view what) {
    return fmt::format("core.{}.{}", core, what);
}

void write_mapping(std::size_t tile, const CoreMapping& mapping, TensorFile& file) {
    file.f64[tile_name(tile, "column_us")] = row_of(mapping.column_us);
    file.f64[tile_name(tile, "input_range")] = row_of({mapping.input_range});
    file.f64[tile_name(tile, "output_step")] = row_of({mapping.output_step});
    if (!mapping.column_steps.empty())
        file.f64[tile_name(tile, "column_steps")] = row_of(mapping.column_steps);
}

CoreMapping read_mapping(std::size_t tile, std::size_t cols, double g_max_us, Reader& file) {
    // Room for the rounding of a target to float, as programming allows it.
    const Range conductance{.least = 0.0, .most = g_max_us * (1.0 + 1e-6), .above = true};
    return {.column_us = file.f64(tile_name(tile, "column_us"), cols, conductance),
            .input_range = file.f64(tile_name(tile, "input_range"), 1, kPositive)[0],
            .output_step = file.f64(tile_name(tile, "output_step"), 1, kPositive)[0],
            .column_steps = file.has_f64(tile_name(tile, "column_steps"))
                                ? file.f64(tile_name(tile, "column_steps"), cols, kPositive)
                                : std::vector<double>{}};
}

void write_devices(const std::string& name, const DeviceState& state, TensorFile& file) {
    file.f32[name + ".g_us"] = state.g_us;
    file.f32[name + ".nu"] = state.nu;
    file.f32[name + ".read_noise"] = state.read_noise;
}

DeviceState read_devices(const std::string& name, const DeviceIds& ids, const Tile& tile, Reader& file) {
    return {.ids = ids,
            .g_us = file.f32(name + ".g_us", tile.rows, tile.cols, kNotNegative),
            .nu = file.f32(name + ".nu", tile.rows, tile.cols, kAny),
            .read_noise = file.f32(name + ".read_noise", tile.rows, tile.cols, kNotNegative)};
}

void write_core(std::size_t number, const ProgrammedCore& core, TensorFile& file) {
    write_devices(core_name(number, "plus"), core.plus, file);
    write_devices(core_name(number, "minus"), core.minus, file);
    file.f64[core_name(number, "gain")] = row_of(core.adc, &AdcColumn::gain);
    file.f64[core_name(number, "negative_gain")] = row_of(core.adc, &AdcColumn::negative_gain);
    file.f64[core_name(number, "offset_counts")] = row_of(core.adc, &AdcColumn::offset_counts);
    file.f64[core_name(number, "affine_scale")] = row_of(core.affine.columns, &AffineColumn::scale);
    file.f64[core_name(number, "affine_offset")] = row_of(core.affine.columns, &AffineColumn::offset);
    file.f64[core_name(number, "affine_step")] = row_of(core.affine.columns, &AffineColumn::step);
    file.f64[core_name(number, "output_step")] = row_of({core.affine.output_step});
    file.f64[core_name(number, "input_range")] = row_of({core.input_range});
    file.f64[core_name(number, "compensation")] = row_of(core.compensation);
}

void read_columns(std::size_t number, std::size_t cols, Reader& file, ProgrammedCore& core) {
    const auto column = [&](std::string_view what, const Range& range) {
        return file.f64(core_name(number, what), cols, range);
    };
    core.adc.resize(cols);
    set_each(column("gain", kPositive), &AdcColumn::gain, core.adc);
    set_each(column("negative_gain", kPositive), &AdcColumn::negative_gain, core.adc);
    set_each(column("offset_counts", kAny), &AdcColumn::offset_counts, core.adc);
    core.affine.columns.resize(cols);
    set_each(column("affine_scale", kAny), &AffineColumn::scale, core.affine.columns);
    set_each(column("affine_offset", kAny), &AffineColumn::offset, core.affine.columns);
    set_each(column("affine_step", kPositive), &AffineColumn::step, core.affine.columns);
    core.compensation = column("compensation", kPositive);
}

ProgrammedCore read_core(const ChipMatrix& chip, std::size_t number, Reader& file) {
    const auto& tile = chip.tiling.tiles[number % chip.tiling.tiles.size()];
    const CoreIds ids{.seed = chip.seed, .core = static_cast<std::uint32_t>(number)};
    const auto devices = [&](std::string_view name, std::uint64_t polarity) {
        return read_devices(core_name(number, name), device_ids(chip.spec.core, ids, polarity), tile, file);
    };
    ProgrammedCore core{.ids = ids,
                        .spec = chip.spec.core,
                        .device = chip.spec.device,
                        .input_range = file.f64(core_name(number, "input_range"), 1, kPositive)[0],
                        .plus = devices("plus", 0),
                        .minus = devices("minus", 1)};
    core.affine.output_step = file.f64(core_name(number, "output_step"), 1, kPositive)[0];
    read_columns(number, tile.cols, file, core);
    return core;
}

void check_time(const ChipMatrix& chip) {
    validate(chip.time);
    const bool right =
        chip.state == ChipState::programmed ? chip.time.seconds == 0.0 : chip.time.seconds > 0.0;
    if (!right)
        fail(ErrorCode::bad_data,
             fmt::format("tensor 'time': {} s since programming do not fit the state '{}'", chip.time.seconds,
                         to_string(chip.state)));
}

std::uint64_t whole_number(const nlohmann::json& settings, const char* key) {
    const auto& value = settings.at(key);
    if (!value.is_number_unsigned())
        fail(ErrorCode::bad_data, fmt::format("metadata 'matrix': {} must be a whole number", key));
    return value.get<std::uint64_t>();
}

std::size_t read_replicas(const nlohmann::json& settings, const ChipMatrix& chip) {
    const std::uint64_t replicas = whole_number(settings, "replicas");
    const auto cores =
        static_cast<std::uint64_t>(chip.spec.cores) * static_cast<std::uint64_t>(chip.spec.chips);
    const std::size_t tiles = chip.tiling.tiles.size();
    if (replicas < 1 || replicas > cores || replicas * tiles > cores)
        fail(ErrorCode::bad_data, fmt::format("{} copies of {} tiles do not fit the {} cores of the chip",
                                              replicas, tiles, cores));
    return replicas;
}

void read_placement(const nlohmann::json& settings, Reader& file, ChipMatrix& chip) {
    chip.tiling = tile_matrix(chip.weights.rows(), chip.weights.cols(), chip.spec.core);
    chip.replicas = read_replicas(settings, chip);
    chip.replication = parse_enum<Replication>(settings.at("replication").get<std::string>());
    for (std::size_t t = 0; t < chip.tiling.tiles.size(); ++t)
        chip.mappings.push_back(read_mapping(t, chip.tiling.tiles[t].cols, chip.spec.device.g_max_us, file));
    chip.inputs = file.f32("inputs");
    const bool empty = chip.inputs.rows() == 0 && chip.inputs.cols() == 0;
    const bool needed = chip.state == ChipState::calibrated;
    if (empty ? needed : chip.inputs.rows() == 0 || chip.inputs.cols() != chip.weights.rows())
        fail(ErrorCode::bad_data,
             fmt::format("tensor 'inputs' is {} x {}; calibration inputs of {} values belong there",
                         chip.inputs.rows(), chip.inputs.cols(), chip.weights.rows()));
    check_values<float>("inputs", std::as_const(chip.inputs).values(), kAny);
}

ChipMatrix chip_of(Reader& file) {
    ChipMatrix chip;
    chip.spec = parse_chip(file.text("chip"), "metadata 'chip'");
    const auto settings = nlohmann::json::parse(file.text("matrix"));
    if (settings.size() != 4)
        fail(ErrorCode::bad_data, "metadata 'matrix' must have seed, state, replicas, replication");
    chip.seed = whole_number(settings, "seed");
    chip.state = parse_enum<ChipState>(settings.at("state").get<std::string>());
    chip.weights = file.f32("weights");
    check_values<float>("weights", std::as_const(chip.weights).values(), kAny);
    if (chip.state == ChipState::ideal) return chip;
    read_placement(settings, file, chip);
    if (chip.state < ChipState::programmed) return chip;
    const auto time = file.f64("time", 2, kNotNegative);
    chip.time = {.seconds = time[0], .spacing_seconds = time[1]};
    check_time(chip);
    for (std::size_t c = 0; c < chip.core_count(); ++c) chip.cores.push_back(read_core(chip, c, file));
    return chip;
}

void add_text(std::string_view text, Sha256& hash) {
    hash.update(fmt::format("{} ", text.size()));
    hash.update(text);
}

template <class T>
void add_tensors(const std::map<std::string, Matrix<T>>& tensors, Sha256& hash) {
    for (const auto& [name, m] : tensors) {
        add_text(name, hash);
        hash.update(fmt::format("{} x {} x {} ", m.rows(), m.cols(), sizeof(T)));
        hash.update(std::as_bytes(m.values()));
    }
}

}  // namespace

std::string checksum(const TensorFile& file) {
    Sha256 hash;
    for (const auto& [key, value] : file.metadata) {
        if (key == kChecksum) continue;
        add_text(key, hash);
        add_text(value, hash);
    }
    add_tensors(file.f32, hash);
    add_tensors(file.f64, hash);
    return hash.hex();
}

TensorFile to_tensors(const ChipMatrix& chip) {
    if (chip.core_count() > kMostCores)
        fail(ErrorCode::bad_usage,
             fmt::format("{} cores; a file holds at most {}", chip.core_count(), kMostCores));
    const nlohmann::json matrix = {{"seed", chip.seed},
                                   {"state", to_string(chip.state)},
                                   {"replicas", chip.replicas},
                                   {"replication", to_string(chip.replication)}};
    TensorFile file;
    file.metadata = {{"format", std::string(kFormat)},
                     {"schema", std::string(kSchema)},
                     {"imka_version", std::string(build_info().version)},
                     {"chip", chip_text(chip.spec)},
                     {"matrix", matrix.dump()}};
    file.f32["weights"] = chip.weights;
    if (chip.state >= ChipState::mapped) file.f32["inputs"] = chip.inputs;
    if (chip.state >= ChipState::programmed)
        file.f64["time"] = row_of({chip.time.seconds, chip.time.spacing_seconds});
    for (std::size_t t = 0; t < chip.mappings.size(); ++t) write_mapping(t, chip.mappings[t], file);
    for (std::size_t c = 0; c < chip.cores.size(); ++c) write_core(c, chip.cores[c], file);
    file.metadata[std::string(kChecksum)] = checksum(file);
    return file;
}

ChipMatrix from_tensors(TensorFile file) {
    const auto sum = checksum(file);
    Reader reader(std::move(file));
    try {
        if (reader.text("format") != kFormat || reader.text("schema") != kSchema)
            fail(ErrorCode::bad_data, fmt::format("not an {} file of schema {}", kFormat, kSchema));
        if (reader.text(std::string(kChecksum)) != sum)
            fail(ErrorCode::bad_data, "the checksum does not fit: the file was damaged or changed by hand");
        reader.text("imka_version");
        auto chip = chip_of(reader);
        reader.done();
        return chip;
    } catch (const Error& e) {
        fail(ErrorCode::bad_data, e.what());
    } catch (const nlohmann::json::exception& e) {
        fail(ErrorCode::bad_data, fmt::format("metadata 'matrix' is not valid: {}", e.what()));
    }
}

void save_chip_matrix(const std::filesystem::path& path, const ChipMatrix& chip) {
    write_safetensors(path, to_tensors(chip));
}

ChipMatrix load_chip_matrix(const std::filesystem::path& path) {
    auto file = read_safetensors(path);
    try {
        return from_tensors(std::move(file));
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}", path.string(), e.what()));
    }
}

}  // namespace imka
