// What the chip commands share: which chip, which weights and inputs, and how a chip is brought to a state.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "app.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/chip_matrix.hpp"
#include "imka/features/project_chip.hpp"
#include "imka/metrics/summary.hpp"

namespace imka {

enum class WeightLaw { gauss, uniform };
template <>
struct EnumNames<WeightLaw> {
    static constexpr std::string_view what = "law of weights";
    static constexpr std::string_view values[] = {"gauss", "uniform"};
};
enum class InputLaw { gauss, uniform, sparse };
template <>
struct EnumNames<InputLaw> {
    static constexpr std::string_view what = "law of inputs";
    static constexpr std::string_view values[] = {"gauss", "uniform", "sparse"};
};

}  // namespace imka

namespace imka::app {

using Json = nlohmann::ordered_json;
using TextTable = std::vector<std::vector<std::string>>;

void print_json(const Json& json);
Json summary_json(const Summary& s);
// "12.3 ± 0.4": mean and half of its 95 % interval, as many digits as that has meaning for.
std::string mean_text(const Summary& s, double factor = 1.0);

struct ChipArgs {
    std::string chip = "hermes";         // --chip
    std::vector<std::string> overrides;  // --set
    std::vector<std::uint64_t> seeds;    // --seeds, --seed
};

// An option whose values are the names of an enumeration.
template <NamedEnum E>
void add_enum_option(CLI::App& verb, const std::string& flag, E& value, const std::string& help) {
    verb.add_option_function<std::string>(
            flag, [&value](const std::string& text) { value = parse_enum<E>(text); }, help)
        ->type_name(join(EnumNames<E>::values, "|"))
        ->default_str(std::string(to_string(value)));
}

// --chip, --set.
void add_chip_options(CLI::App& verb, ChipArgs& args);
// --seeds and --seed; `seeds` as it is when called is the default.
void add_seed_options(CLI::App& verb, ChipArgs& args);
// A preset by name or a YAML file by path, with its overrides.
ChipSpec load_spec(const ChipArgs& args);

// Weights and inputs: drawn by a seed, or from files.
struct ProblemArgs {
    std::string weights = "gauss";  // law or file
    double weight_sigmas = 3.0;
    std::string inputs = "gauss";  // law or file
    double sparsity = 0.9;
    std::size_t rows = 256;
    std::size_t cols = 256;
    std::size_t count = 0;  // test inputs; 0: chosen by the size
    std::size_t calibration_count = 2000;
    InputRangeRule input_range = InputRangeRule::max;
};
void add_problem_options(CLI::App& verb, ProblemArgs& args);

// Everything one chip is tried with. Files are the same for every seed; drawn matrices are new for each.
struct Problem {
    Matrix<float> weights;      // inputs x outputs
    Matrix<float> calibration;  // sample of inputs
    Matrix<float> inputs;       // others, to test with
};
class ProblemSource {
public:
    // Reads files and checks that they fit each other.
    explicit ProblemSource(const ProblemArgs& args);
    // Weights of a chip that is programmed already.
    ProblemSource(const ProblemArgs& args, const Matrix<float>& weights);
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    std::size_t count() const { return count_; }
    Problem draw(std::uint64_t seed) const;
    std::string description() const;

private:
    void read_inputs();
    Matrix<float> draw_weights(std::uint64_t seed) const;
    Matrix<float> draw_inputs(std::uint64_t seed, std::uint64_t first, std::size_t count) const;

    ProblemArgs args_;
    Matrix<float> weight_file_;  // given weights; none: drawn
    Matrix<float> input_file_;
    std::size_t rows_ = 0;
    std::size_t cols_ = 0;
    std::size_t count_ = 0;
};

// --load FILE of a programmed chip, which then needs no --chip, --set, weights or --programming.
void add_load_option(CLI::App& verb, std::filesystem::path& file);
// Error{bad_usage} unless it is programmed.
ChipMatrix load_programmed(const std::filesystem::path& file);

// Error{bad_config} where the matrix does not fit the chip, before any work.
void check_fits_chip(const ChipSpec& spec, const ProblemSource& source,
                     const PlacementConfig& placement = {});

ChipSettings make_settings(const ChipSpec& spec, const ProblemArgs& args);

struct BuildPlan {
    PlacementConfig placement;
    ProgrammingConfig programming;
    bool output_calibration = true;
};
// Placed, calibrated, programmed, outputs calibrated.
ChipMatrix build_chip(const ChipSettings& settings, const Problem& problem, const BuildPlan& plan,
                      std::uint64_t seed, const Exec& exec);

void compensate_by(ChipMatrix& chip, AgeCompensation kind, const Exec& exec);

// Seed of the noise that is new in every product, apart from that of the chip.
std::uint64_t product_seed(std::uint64_t chip_seed);

// "hermes, 256 x 256 on 1 core of 64"
std::string chip_line(const ChipSpec& spec, std::size_t rows, std::size_t cols);

}  // namespace imka::app
