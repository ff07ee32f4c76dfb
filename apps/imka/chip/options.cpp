#include "chip/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/chip/spec/chip_io.hpp"
#include "imka/data/table.hpp"
#include "imka/deploy/chip_matrix_io.hpp"

namespace imka::app {
namespace {

template <NamedEnum E>
bool is_name(const std::string& text) {
    return std::ranges::find(EnumNames<E>::values, std::string_view(text)) != std::end(EnumNames<E>::values);
}

template <NamedEnum E>
std::string names_or_file() {
    return join(EnumNames<E>::values, "|") + "|FILE";
}

// Something that is neither a law nor a file was meant to be one of them.
template <NamedEnum E>
Matrix<float> read_matrix(const std::string& option, const std::string& path) {
    if (!std::filesystem::exists(path))
        fail(ErrorCode::bad_usage, fmt::format("{} {}: neither a file nor a {}; known: {}", option, path,
                                               EnumNames<E>::what, join(EnumNames<E>::values)));
    return read_table(path, {.label_column = "none"}).x;
}

float draw_weight(const ProblemArgs& args, std::uint64_t seed, std::uint64_t index) {
    if (args.weights == to_string(WeightLaw::uniform))
        return static_cast<float>(2.0 * uniform(seed, Stream::synthetic_value, index) - 1.0);
    return truncated_normal(seed, Stream::synthetic_value, index, static_cast<float>(args.weight_sigmas));
}

float draw_input(const ProblemArgs& args, std::uint64_t seed, std::uint64_t index) {
    if (args.inputs == to_string(InputLaw::uniform))
        return static_cast<float>(2.0 * uniform(seed, Stream::synthetic_mix, index) - 1.0);
    if (args.inputs == to_string(InputLaw::sparse) &&
        uniform(seed, Stream::synthetic_class, index) < args.sparsity)
        return 0.0F;
    return normal(seed, Stream::synthetic_mix, index);
}

std::size_t default_count(std::size_t rows) {
    // Enough to tell effective weights from noise; for large matrices that would take too long.
    constexpr std::size_t kMost = 4096;
    return 4 * rows <= kMost ? std::max<std::size_t>(1000, 4 * rows) : 2000;
}

// The split of inputs from a file: the first half calibrates, the other tests.
Matrix<float> some_rows(const Matrix<float>& x, std::size_t first, std::size_t count) {
    Matrix<float> out(count, x.cols());
    for (std::size_t r = 0; r < count; ++r) std::ranges::copy(x.row(first + r), out.row(r).begin());
    return out;
}

Matrix<float> stacked(const Matrix<float>& a, const Matrix<float>& b) {
    Matrix<float> out(a.rows() + b.rows(), a.cols());
    std::ranges::copy(a.values(), out.values().begin());
    std::ranges::copy(b.values(), out.values().begin() + static_cast<std::ptrdiff_t>(a.values().size()));
    return out;
}

}  // namespace

void print_json(const Json& json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json summary_json(const Summary& s) {
    return {{"mean", s.mean}, {"std", s.std}, {"ci95", s.half_width}, {"values", s.values}};
}

std::string mean_text(const Summary& s, double factor) {
    const double mean = factor * s.mean;
    const double half = factor * s.half_width;
    if (!(half > 0.0)) return fmt::format("{:.4g}", mean);
    // Two digits of the uncertainty, as far as plain numbers show them.
    const int digits = std::max(0, 1 - static_cast<int>(std::floor(std::log10(half))));
    if (digits > 3) return fmt::format("{:.2g} ± {:.1g}", mean, half);
    return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, half, digits);
}

void add_chip_options(CLI::App& verb, ChipArgs& args) {
    verb.add_option("--chip", args.chip, "A chip by name ('imka chip info' lists them) or its YAML file")
        ->type_name("NAME|FILE.yaml")
        ->capture_default_str();
    verb.add_option("--set", args.overrides,
                    "Give a constant of the chip another value, e.g. --set core.adc_noise=2")
        ->type_name("KEY=VALUE");
}

void add_seed_options(CLI::App& verb, ChipArgs& args) {
    const auto parse = [&args](const std::string& text) {
        args.seeds = Codec<std::vector<std::uint64_t>>::parse(text, "seeds");
    };
    const auto shown = args.seeds.size() == 1 ? std::to_string(args.seeds[0])
                                              : fmt::format("{}..{}", args.seeds.front(), args.seeds.back());
    verb.add_option_function<std::string>(
            "--seeds", parse, "Seeds: each names a chip, and weights and inputs where these are drawn")
        ->type_name("list such as 0..9 or 1,4,7")
        ->default_str(shown);
    verb.add_option_function<std::string>("--seed", parse, "One seed")
        ->type_name("integer")
        ->excludes("--seeds");
}

ChipSpec load_spec(const ChipArgs& args) {
    const bool file = args.chip.ends_with(".yaml") || args.chip.ends_with(".yml") ||
                      args.chip.find('/') != std::string::npos;
    auto spec = file ? load_chip(args.chip) : chip_preset(args.chip);
    for (const auto& text : args.overrides) {
        const auto [key, value] = parse_assignment(text, "--set");
        set_constant(spec, key, value);
    }
    return spec;
}

void add_problem_options(CLI::App& verb, ProblemArgs& args) {
    verb.add_option("--weights", args.weights,
                    "Law of the weights, or a file (NPY, CSV) with a row for each input")
        ->type_name(names_or_file<WeightLaw>())
        ->capture_default_str();
    verb.add_option("--weight-sigmas", args.weight_sigmas, "Gaussian weights are cut at this many deviations")
        ->check(CLI::Range(0.01, 6.0))
        ->capture_default_str();
    verb.add_option("--input-law", args.inputs,
                    "Law of the inputs, or a file with an input in each row; its first half calibrates")
        ->type_name(names_or_file<InputLaw>())
        ->capture_default_str();
    verb.add_option("--sparsity", args.sparsity, "Share of zeros in sparse inputs")
        ->check(CLI::Range(0.0, 0.999))
        ->capture_default_str();
    verb.add_option("--rows", args.rows, "Inputs of the matrix")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    verb.add_option("--cols", args.cols, "Outputs of the matrix")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    verb.add_option("--inputs", args.count, "Products to measure; 0: enough for the size")
        ->check(CLI::Range(0, 100'000'000))
        ->capture_default_str();
    verb.add_option("--calibration-inputs", args.calibration_count, "Inputs that calibration looks at")
        ->check(CLI::Range(2, 1'000'000))
        ->capture_default_str();
    add_enum_option(verb, "--input-range", args.input_range, "How calibration chooses the range of inputs");
}

ProblemSource::ProblemSource(const ProblemArgs& args)
    : args_(args), rows_(args.rows), cols_(args.cols), count_(args.count) {
    if (!is_name<WeightLaw>(args.weights)) {
        weight_file_ = read_matrix<WeightLaw>("--weights", args.weights);
        rows_ = weight_file_.rows();
        cols_ = weight_file_.cols();
    }
    check_fits_memory(static_cast<double>(rows_), static_cast<double>(cols_), 64,
                      "the devices of the matrix");
    read_inputs();
}

ProblemSource::ProblemSource(const ProblemArgs& args, const Matrix<float>& weights)
    : args_(args), weight_file_(weights), rows_(weights.rows()), cols_(weights.cols()), count_(args.count) {
    args_.weights = "the chip's";
    read_inputs();
}

void ProblemSource::read_inputs() {
    if (count_ == 0) count_ = default_count(rows_);
    if (is_name<InputLaw>(args_.inputs)) return;
    input_file_ = read_matrix<InputLaw>("--input-law", args_.inputs);
    if (input_file_.cols() != rows_)
        fail(ErrorCode::bad_data, fmt::format("{}: inputs of length {}; the matrix has {} inputs",
                                              args_.inputs, input_file_.cols(), rows_));
    if (input_file_.rows() < 4)
        fail(ErrorCode::bad_data,
             fmt::format("{}: {} inputs; at least 4 are needed, half of them to calibrate", args_.inputs,
                         input_file_.rows()));
    const auto half = input_file_.rows() / 2;
    count_ = args_.count == 0 ? half : std::min(args_.count, half);
}

Matrix<float> ProblemSource::draw_weights(std::uint64_t seed) const {
    Matrix<float> w(rows_, cols_);
    for (std::size_t i = 0; i < w.values().size(); ++i) w.values()[i] = draw_weight(args_, seed, i);
    return w;
}

Matrix<float> ProblemSource::draw_inputs(std::uint64_t seed, std::uint64_t first, std::size_t count) const {
    Matrix<float> x(count, rows_);
    const std::uint64_t begin = first * rows_;
    for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = draw_input(args_, seed, begin + i);
    return x;
}

Problem ProblemSource::draw(std::uint64_t seed) const {
    Problem problem;
    problem.weights = weight_file_.rows() > 0 ? weight_file_ : draw_weights(seed);
    if (input_file_.rows() > 0) {
        const auto half = input_file_.rows() / 2;
        problem.calibration = some_rows(input_file_, 0, std::min(half, args_.calibration_count));
        problem.inputs = some_rows(input_file_, half, count_);
    } else {
        problem.calibration = draw_inputs(seed, 0, args_.calibration_count);
        problem.inputs = draw_inputs(seed, args_.calibration_count, count_);
    }
    return problem;
}

std::string ProblemSource::description() const {
    const auto weights = args_.weights == to_string(WeightLaw::gauss)
                             ? fmt::format("Gaussian weights cut at {} deviations", args_.weight_sigmas)
                             : fmt::format("{} weights", args_.weights);
    const auto inputs = args_.inputs == to_string(InputLaw::sparse)
                            ? fmt::format("Gaussian inputs, {} % of them 0", 100.0 * args_.sparsity)
                        : args_.inputs == to_string(InputLaw::gauss) ? "Gaussian inputs"
                                                                     : fmt::format("{} inputs", args_.inputs);
    return fmt::format("{}, {}, range by {}", weights, inputs, to_string(args_.input_range));
}

void add_load_option(CLI::App& verb, std::filesystem::path& file) {
    auto* load = verb.add_option("--load", file, "A programmed chip that 'imka chip program --output' wrote")
                     ->check(CLI::ExistingFile);
    for (const auto* other : {"--chip", "--set", "--weights", "--rows", "--cols", "--programming"})
        load->excludes(verb.get_option(other));
}

ChipMatrix load_programmed(const std::filesystem::path& file) {
    auto chip = load_chip_matrix(file);
    require_state(chip, ChipState::programmed, ChipState::compensated, file.string());
    return chip;
}

void check_fits_chip(const ChipSpec& spec, const ProblemSource& source, const PlacementConfig& placement) {
    auto chip = ideal_matrix(spec, Matrix<float>(source.rows(), source.cols()), 0);
    place(chip, placement);
}

ChipSettings make_settings(const ChipSpec& spec, const ProblemArgs& args) {
    return {.spec = spec, .calibration = {.inputs = args.calibration_count, .input_range = args.input_range}};
}

ChipMatrix build_chip(const ChipSettings& settings, const Problem& problem, const BuildPlan& plan,
                      std::uint64_t seed, const Exec& exec) {
    auto chip = ideal_matrix(settings.spec, problem.weights, seed);
    place(chip, plan.placement);
    if (settings.whole_range) {
        auto calibration = settings.calibration;
        const auto all = stacked(problem.calibration, problem.inputs);
        calibration.inputs = all.rows();
        calibrate(chip, all.view(), calibration, exec);
    } else {
        calibrate(chip, problem.calibration.view(), settings.calibration, exec);
    }
    program(chip, plan.programming, exec);
    if (plan.output_calibration) calibrate_outputs(chip, exec);
    return chip;
}

void compensate_by(ChipMatrix& chip, AgeCompensation kind, const Exec& exec) {
    switch (kind) {
        case AgeCompensation::none:
            return;
        case AgeCompensation::global:
            return compensate(chip, DriftCompensation::global);
        case AgeCompensation::column:
            return compensate(chip, DriftCompensation::column);
        case AgeCompensation::outputs:
            return calibrate_outputs(chip, exec);
    }
}

std::uint64_t product_seed(std::uint64_t chip_seed) {
    return chip_seed + (std::uint64_t{1} << 40U);
}

std::string chip_line(const ChipSpec& spec, std::size_t rows, std::size_t cols) {
    const auto tiles = tile_matrix(rows, cols, spec.core).tiles.size();
    return fmt::format("{}: a {} x {} matrix on {} of {} cores of {} x {}", spec.name, rows, cols, tiles,
                       static_cast<std::size_t>(spec.cores) * static_cast<std::size_t>(spec.chips),
                       spec.core.rows, spec.core.cols);
}

}  // namespace imka::app
