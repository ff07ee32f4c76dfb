// Reads and writes chip files.
#include "imka/deploy/chip_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {
namespace {

constexpr FileKind kChipFile{.format = "imka-chip", .schema = "3", .renew = "program the chip again"};
constexpr std::size_t kMostRegions = 16384;  // more would not fit the header of a file

// One member of each item.
template <class Item>
Matrix<double> members_of(const std::vector<Item>& items, double Item::*number) {
    Matrix<double> row(1, items.size());
    std::transform(items.begin(), items.end(), row.values().begin(),
                   [&](const Item& i) { return i.*number; });
    return row;
}
template <class Item>
void set_each(const std::vector<double>& values, double Item::*number, std::vector<Item>& items) {
    for (std::size_t i = 0; i < values.size(); ++i) items[i].*number = values[i];
}

std::string region_name(std::size_t region, std::string_view what) {
    return fmt::format("region.{}.{}", region, what);
}
std::string matrix_name(std::size_t matrix, std::string_view what) {
    return fmt::format("matrix.{}.{}", matrix, what);
}

void write_scale(std::size_t region, const RegionScale& scale, TensorFile& file) {
    file.f64[region_name(region, "column_us")] = row_of(scale.column_us);
    file.f64[region_name(region, "input_range")] = row_of({scale.input_range});
    file.f64[region_name(region, "output_step")] = row_of({scale.output_step});
    if (!scale.output_limits.empty())
        file.f64[region_name(region, "output_limits")] = row_of(scale.output_limits);
}

RegionScale read_scale(std::size_t region, std::size_t cols, double g_max_us, SealedReader& file) {
    // Allows for rounding of a target to float, as programming does.
    const ValueRange conductance{.least = 0.0, .most = g_max_us * (1.0 + 1e-6), .above = true};
    return {.column_us = file.f64(region_name(region, "column_us"), cols, conductance),
            .input_range = file.f64(region_name(region, "input_range"), 1, kPositive)[0],
            .output_step = file.f64(region_name(region, "output_step"), 1, kPositive)[0],
            .output_limits = file.has_f64(region_name(region, "output_limits"))
                                 ? file.f64(region_name(region, "output_limits"), cols, kPositive)
                                 : std::vector<double>{}};
}

void write_devices(const std::string& name, const DeviceState& state, TensorFile& file) {
    file.f32[name + ".g_us"] = state.g_us;
    file.f32[name + ".nu"] = state.nu;
    file.f32[name + ".read_noise"] = state.read_noise;
}

DeviceState read_devices(const std::string& name, const DeviceIds& ids, const Tile& tile,
                         SealedReader& file) {
    const std::pair shape{tile.rows, tile.cols};
    return {.ids = ids,
            .g_us = file.f32(name + ".g_us", shape, kNotNegative),
            .nu = file.f32(name + ".nu", shape, kAnyValue),
            .read_noise = file.f32(name + ".read_noise", shape, kNotNegative)};
}

void write_region(std::size_t number, const ProgrammedRegion& region, TensorFile& file) {
    write_devices(region_name(number, "plus"), region.plus, file);
    write_devices(region_name(number, "minus"), region.minus, file);
    const auto columns = [&](std::string_view what) -> Matrix<double>& {
        return file.f64[region_name(number, what)];
    };
    columns("gain") = members_of(region.adc, &AdcColumn::gain);
    columns("negative_gain") = members_of(region.adc, &AdcColumn::negative_gain);
    columns("offset_counts") = members_of(region.adc, &AdcColumn::offset_counts);
    columns("affine_scale") = members_of(region.affine.columns, &AffineColumn::scale);
    columns("affine_offset") = members_of(region.affine.columns, &AffineColumn::offset);
    columns("compensation") = row_of(region.compensation);
}

void read_columns(std::size_t number, std::size_t cols, SealedReader& file, ProgrammedRegion& region) {
    const auto column = [&](std::string_view what, const ValueRange& range) {
        return file.f64(region_name(number, what), cols, range);
    };
    region.adc.resize(cols);
    set_each(column("gain", kPositive), &AdcColumn::gain, region.adc);
    set_each(column("negative_gain", kPositive), &AdcColumn::negative_gain, region.adc);
    set_each(column("offset_counts", kAnyValue), &AdcColumn::offset_counts, region.adc);
    region.affine.columns.resize(cols);
    set_each(column("affine_scale", kAnyValue), &AffineColumn::scale, region.affine.columns);
    set_each(column("affine_offset", kAnyValue), &AffineColumn::offset, region.affine.columns);
    region.compensation = column("compensation", kPositive);
}

ProgrammedRegion read_region(const ProgrammedChip& chip, std::size_t number, SealedReader& file) {
    const auto& plan = chip.plan;
    const auto& place = plan.regions[number];
    const RegionIds ids{.seed = chip.seed, .core = place.core, .row = place.row, .col = place.col};
    const auto devices = [&](std::string_view name, std::uint64_t polarity) {
        return read_devices(region_name(number, name), device_ids(plan.spec.core, ids, polarity), place.tile,
                            file);
    };
    ProgrammedRegion region{.ids = ids,
                            .spec = plan.spec.core,
                            .device = plan.spec.device,
                            .input_range = plan.scales[number].input_range,
                            .plus = devices("plus", 0),
                            .minus = devices("minus", 1)};
    region.affine.output_step = plan.scales[number].output_step;
    read_columns(number, place.tile.cols, file, region);
    set_each(plan.scales[number].output_limits, &AffineColumn::limit, region.affine.columns);
    return region;
}

template <class T>
T whole_number(const nlohmann::json& value, std::string_view what) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<T>::max())
        fail(ErrorCode::bad_data, fmt::format("metadata 'plan': {} must be an integer", what));
    return value.get<T>();
}

nlohmann::json region_json(const Region& r) {
    return {r.matrix,         r.replica,   r.core,           r.row,      r.col,
            r.tile.first_row, r.tile.rows, r.tile.first_col, r.tile.cols};
}

Region read_place(const nlohmann::json& row) {
    if (!row.is_array() || row.size() != 9)
        fail(ErrorCode::bad_data, "metadata 'plan': a region must have 9 numbers");
    std::array<std::uint32_t, 9> n{};
    for (std::size_t i = 0; i < n.size(); ++i)
        n[i] = whole_number<std::uint32_t>(row[i], "a number of a region");
    return {.matrix = n[0],
            .replica = n[1],
            .core = n[2],
            .row = n[3],
            .col = n[4],
            .tile = {.first_row = n[5], .rows = n[6], .first_col = n[7], .cols = n[8]}};
}

PlannedMatrix read_matrix(std::size_t number, const nlohmann::json& settings, SealedReader& file) {
    PlannedMatrix matrix{
        .weights = file.f32(matrix_name(number, "weights")),
        .replicas = whole_number<std::uint32_t>(settings.at("replicas"), "replicas"),
        .replication = parse_enum<Replication>(settings.at("replication").get<std::string>())};
    if (file.has_f32(matrix_name(number, "inputs"))) matrix.inputs = file.f32(matrix_name(number, "inputs"));
    return matrix;
}

Plan read_plan(const nlohmann::json& settings, SealedReader& file) {
    Plan plan{.spec = parse_chip(file.text("chip"), "metadata 'chip'")};
    for (const auto& m : settings.at("matrices"))
        plan.matrices.push_back(read_matrix(plan.matrices.size(), m, file));
    for (const auto& r : settings.at("regions")) {
        const auto region = read_place(r);
        plan.scales.push_back(
            read_scale(plan.regions.size(), region.tile.cols, plan.spec.device.g_max_us, file));
        plan.regions.push_back(region);
    }
    validate(plan);
    return plan;
}

void read_devices(const nlohmann::json& settings, SealedReader& file, ProgrammedChip& chip) {
    chip.seed = whole_number<std::uint64_t>(settings.at("seed"), "seed");
    const auto time = file.f64("time", 2, kNotNegative);
    chip.time = {.seconds = time[0], .spacing_seconds = time[1]};
    if (file.has_f64("corrected")) chip.corrected_seconds = file.f64("corrected", 1, kNotNegative)[0];
    if (chip.corrected_seconds > chip.time.seconds)
        fail(ErrorCode::bad_data, "tensor 'corrected': must not be later than the time of the chip");
    for (std::size_t r = 0; r < chip.plan.regions.size(); ++r)
        chip.regions.push_back(read_region(chip, r, file));
}

// Returns a chip without regions if the file holds only a plan.
ProgrammedChip read_tensors(TensorFile tensors) {
    const auto format = tensors.metadata.find("format");
    if (format != tensors.metadata.end() && format->second == "imka-chip-matrix")
        fail(ErrorCode::bad_data, "written by an earlier version; program the chip again");
    SealedReader file(kChipFile, std::move(tensors));
    try {
        const auto settings = nlohmann::json::parse(file.text("plan"));
        ProgrammedChip chip{.plan = read_plan(settings, file)};
        if (settings.contains("seed")) read_devices(settings, file, chip);
        file.done();
        return chip;
    } catch (const Error& e) {
        fail(ErrorCode::bad_data, e.what());
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "metadata 'plan' is not the JSON text of a plan");
    }
}

TensorFile write_tensors(const Plan& plan, const ProgrammedChip* chip) {
    if (plan.regions.size() > kMostRegions)
        fail(ErrorCode::bad_usage,
             fmt::format("{} regions; a file holds at most {}", plan.regions.size(), kMostRegions));
    TensorFile file;
    nlohmann::json settings = {{"matrices", nlohmann::json::array()}, {"regions", nlohmann::json::array()}};
    for (std::size_t m = 0; m < plan.matrices.size(); ++m) {
        const auto& matrix = plan.matrices[m];
        settings["matrices"].push_back(
            {{"replicas", matrix.replicas}, {"replication", to_string(matrix.replication)}});
        file.f32[matrix_name(m, "weights")] = matrix.weights;
        if (matrix.inputs.rows() > 0) file.f32[matrix_name(m, "inputs")] = matrix.inputs;
    }
    for (std::size_t r = 0; r < plan.regions.size(); ++r) {
        settings["regions"].push_back(region_json(plan.regions[r]));
        write_scale(r, plan.scales[r], file);
    }
    if (chip != nullptr) {
        settings["seed"] = chip->seed;
        file.f64["time"] = row_of({chip->time.seconds, chip->time.spacing_seconds});
        if (chip->corrected_seconds) file.f64["corrected"] = row_of({*chip->corrected_seconds});
        for (std::size_t r = 0; r < chip->regions.size(); ++r) write_region(r, chip->regions[r], file);
    }
    file.metadata = {{"chip", chip_text(plan.spec)}, {"plan", settings.dump()}};
    seal(kChipFile, file);
    return file;
}

}  // namespace

TensorFile to_tensors(const ProgrammedChip& chip) {
    return write_tensors(chip.plan, &chip);
}

TensorFile to_tensors(const Plan& plan) {
    return write_tensors(plan, nullptr);
}

Plan plan_from_tensors(TensorFile file) {
    return read_tensors(std::move(file)).plan;
}

ProgrammedChip chip_from_tensors(TensorFile file) {
    auto chip = read_tensors(std::move(file));
    if (chip.regions.empty())
        fail(ErrorCode::bad_data, "holds a plan that is not programmed; 'imka chip program' writes chips");
    return chip;
}

void save_chip_file(const std::filesystem::path& path, const ProgrammedChip& chip) {
    write_safetensors(path, to_tensors(chip));
}

void save_plan_file(const std::filesystem::path& path, const Plan& plan) {
    write_safetensors(path, to_tensors(plan));
}

ProgrammedChip load_chip_file(const std::filesystem::path& path) {
    return read_sealed(path, chip_from_tensors);
}

Plan load_plan_file(const std::filesystem::path& path) {
    return read_sealed(path, plan_from_tensors);
}

}  // namespace imka
