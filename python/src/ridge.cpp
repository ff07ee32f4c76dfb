// Kernel ridge: fit on all rows at once or in batches, scores, files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "arrays.hpp"
#include "imka/base/error.hpp"
#include "imka/learn/ridge_model.hpp"
#include "interruptible.hpp"
#include "module.hpp"
#include "on_chip.hpp"
#include "settings.hpp"

namespace imka::python {
namespace {

using ClassNumbers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A fitted model, and the chip that computes its features, if any.
struct Ridge {
    RidgeModel model;
    std::optional<BuiltChip> chip;
    std::uint64_t product_seed;
    RidgePredictor predictor;

    Ridge(RidgeModel m, std::optional<BuiltChip> built, std::uint64_t seed, const Exec& exec)
        : model(std::move(m)),
          chip(std::move(built)),
          product_seed(seed),
          predictor(chip ? RidgePredictor(model, map_on(*chip, model.recipe, exec), seed)
                         : RidgePredictor(model)) {}
};

// Settings, seed and training rows of a fit.
struct FitJob {
    RunConfig config;
    std::uint64_t seed = 0;
    MatrixView<const float> x;
};

std::optional<BuiltChip> test_chip(const FitJob& job, const FeatureRecipe& recipe, const Exec& exec) {
    if (!job.config.backend.is_chip()) return std::nullopt;
    return chip_of(job.config, recipe, job.x, test_seeds(job.config.chip, job.seed).chip, exec);
}

// Feature maps of the training rows, selected by fit_on. Empty: the exact features.
struct TrainingMaps {
    std::vector<FeatureMap> maps;
    std::vector<SeededMap> seeded;
};
TrainingMaps training_maps(const FitJob& job, const FeatureRecipe& recipe,
                           const std::optional<BuiltChip>& chip, const Exec& exec) {
    TrainingMaps out;
    const auto& run = job.config.chip;
    if (!chip || run.fit_on == FitOn::fp32) return out;
    std::vector<std::uint64_t> seeds;
    if (run.fit_on == FitOn::chip) {
        out.maps.push_back(map_on(*chip, recipe, exec));
        seeds.push_back(train_seeds(run, job.seed).products);
    } else {
        for (std::int64_t k = 0; k < run.fit_draws; ++k) {
            const auto drawn = draw_seeds(run, job.seed, k);
            out.maps.push_back(map_on(chip_of(job.config, recipe, job.x, drawn.chip, exec), recipe, exec));
            seeds.push_back(drawn.products);
        }
    }
    for (std::size_t k = 0; k < seeds.size(); ++k) out.seeded.push_back({&out.maps[k], seeds[k]});
    return out;
}

template <class Fit>
std::unique_ptr<Ridge> fit_on_rows(const FitJob& job, const Exec& exec, Fit&& fit) {
    const auto recipe = recipe_of(job.config, job.x, job.seed);
    auto chip = test_chip(job, recipe, exec);
    const auto training = training_maps(job, recipe, chip, exec);
    auto model = fit(RidgeFit{.recipe = recipe, .ridge = job.config.ridge}, training.seeded);
    return std::make_unique<Ridge>(std::move(model), std::move(chip),
                                   test_seeds(job.config.chip, job.seed).products, exec);
}

void check_rows(std::size_t x, std::size_t y) {
    if (x != y) fail(ErrorCode::bad_data, fmt::format("{} rows of x, but {} rows of y", x, y));
}

std::unique_ptr<Ridge> classifier(const Settings& settings, const FloatRows& x, const ClassNumbers& y,
                                  const std::vector<std::string>& classes, std::uint64_t seed,
                                  const PyExec& exec) {
    check_rows(x.shape(0), y.shape(0));
    const FitJob job{.config = run_config(settings), .seed = seed, .x = view_of(x)};
    const std::vector<std::int32_t> numbers(y.data(), y.data() + y.size());
    const auto valid = [&](std::int32_t c) { return c >= 0 && static_cast<std::size_t>(c) < classes.size(); };
    if (!std::ranges::all_of(numbers, valid))
        fail(ErrorCode::bad_data, "y has a class that is not in classes");
    return interruptible(exec, [&](const Exec& e) {
        return fit_on_rows(job, e, [&](const RidgeFit& fit, std::span<const SeededMap> maps) {
            return fit_classifier(fit, maps, job.x, numbers, classes, e);
        });
    });
}

std::unique_ptr<Ridge> regressor(const Settings& settings, const FloatRows& x, const FloatRows& y,
                                 std::uint64_t seed, const PyExec& exec) {
    check_rows(x.shape(0), y.shape(0));
    const FitJob job{.config = run_config(settings), .seed = seed, .x = view_of(x)};
    const auto targets = view_of(y);
    return interruptible(exec, [&](const Exec& e) {
        return fit_on_rows(job, e, [&](const RidgeFit& fit, std::span<const SeededMap> maps) {
            return fit_regressor(fit, maps, job.x, targets, e);
        });
    });
}

// A fit in batches. Recipe and chip come from the rows of the first one.
class RidgeStream {
public:
    RidgeStream(const FitJob& job, std::size_t outputs, const Exec& exec)
        : config_(job.config),
          recipe_(recipe_of(job.config, job.x, job.seed)),
          chip_(test_chip(job, recipe_, exec)),
          seeds_{test_seeds(config_.chip, job.seed).products, train_seeds(config_.chip, job.seed).products},
          map_(on_chip() ? map_on(*chip_, recipe_, exec) : FeatureMap(recipe_, exec)),
          outputs_(outputs),
          sums_(map_.features(), outputs) {
        if (chip_ && config_.chip.fit_on == FitOn::chips)
            fail(ErrorCode::bad_config, "fit_on: 'chips' needs all rows at once; use fit, or fit_on 'chip'");
    }

    void add(MatrixView<const float> x, MatrixView<const float> y, const Exec& exec) {
        if (y.cols() != outputs_)
            fail(ErrorCode::bad_data,
                 fmt::format("y has {} columns, the first batch had {}", y.cols(), outputs_));
        constexpr std::size_t kRows = 8 * RidgeAccumulator::kRowsPerTile;
        for (std::size_t first = 0; first < x.rows(); first += kRows) {
            const std::size_t count = std::min(kRows, x.rows() - first);
            RidgeRows block(count, map_.features(), outputs_);
            map_.transform(x.slice_rows(first, count), {seeds_.train, rows_}, exec, block.z(0, count));
            for (std::size_t r = 0; r < count; ++r) std::ranges::copy(y.row(first + r), block.y(r).begin());
            sums_.add(block.view(0, count), exec);
            rows_ += count;
        }
    }

    std::unique_ptr<Ridge> solve(std::vector<std::string> classes, const Exec& exec) const {
        auto sums = sums_;  // more rows may follow
        RidgeModel model{.recipe = recipe_,
                         .omega = sample(recipe_.omega, exec),
                         .ridge = config_.ridge,
                         .classes = std::move(classes),
                         .standardization = {},
                         .weights = sums.solve(config_.ridge, exec)};
        return std::make_unique<Ridge>(std::move(model), chip_, seeds_.test, exec);
    }

private:
    bool on_chip() const { return chip_ && config_.chip.fit_on == FitOn::chip; }

    struct ProductSeeds {
        std::uint64_t test = 0;
        std::uint64_t train = 0;
    };
    RunConfig config_;
    FeatureRecipe recipe_;
    std::optional<BuiltChip> chip_;
    ProductSeeds seeds_;
    FeatureMap map_;
    std::size_t outputs_;
    RidgeAccumulator sums_;
    std::uint64_t rows_ = 0;
};

std::unique_ptr<RidgeStream> stream(const Settings& settings, const FloatRows& x, std::size_t outputs,
                                    std::uint64_t seed, const PyExec& exec) {
    const FitJob job{.config = run_config(settings), .seed = seed, .x = view_of(x)};
    return interruptible(exec, [&](const Exec& e) { return std::make_unique<RidgeStream>(job, outputs, e); });
}

void add_batch(RidgeStream& stream, const FloatRows& x, const FloatRows& y, const PyExec& exec) {
    check_rows(x.shape(0), y.shape(0));
    const auto rows = view_of(x);
    const auto targets = view_of(y);
    interruptible(exec, [&](const Exec& e) { stream.add(rows, targets, e); });
}

NumpyMatrix<double> scores(const Ridge& ridge, const FloatRows& x, std::uint64_t first, const PyExec& exec) {
    const auto rows = view_of(x);
    return to_numpy(interruptible(exec, [&](const Exec& e) {
        Matrix<double> out(rows.rows(), ridge.predictor.outputs());
        ridge.predictor.scores(rows, first, e, out.view());
        return out;
    }));
}

std::unique_ptr<Ridge> load_ridge(const std::filesystem::path& path, std::uint64_t product_seed,
                                  const std::optional<ChipParts>& chip, const PyExec& exec) {
    return interruptible(exec, [&](const Exec& e) {
        auto built = chip ? std::optional(read_chip(*chip)) : std::nullopt;
        return std::make_unique<Ridge>(load_model(path), std::move(built), product_seed, e);
    });
}

}  // namespace

void bind_ridge(nb::module_& m) {
    nb::class_<Ridge>(m, "Ridge", "A kernel ridge model with its feature map.")
        .def("scores", &scores, nb::arg("x"), nb::arg("first"), nb::arg("exec"))
        .def_prop_ro("n_features_in", [](const Ridge& r) { return r.model.recipe.omega.d; })
        .def_prop_ro("n_components", [](const Ridge& r) { return r.model.weights.w.rows(); })
        .def_prop_ro("gamma", [](const Ridge& r) { return r.model.recipe.omega.gamma; })
        .def_prop_ro("product_seed", [](const Ridge& r) { return r.product_seed; })
        .def_prop_ro("solver", [](const Ridge& r) { return std::string(to_string(r.model.solver)); })
        .def(
            "weights", [](const Ridge& r) { return to_numpy(r.model.weights.w); }, "D x outputs.")
        .def("intercept", [](const Ridge& r) { return to_numpy(r.model.weights.intercept); })
        .def(
            "save", [](const Ridge& r, const std::filesystem::path& path) { save_model(path, r.model); },
            nb::arg("path"))
        .def(
            "save_chip",
            [](const Ridge& r, const std::filesystem::path& path) { return save_chip(r.chip, path); },
            nb::arg("path"));
    nb::class_<RidgeStream>(m, "RidgeStream", "A fit in batches of rows.")
        .def("add", &add_batch, nb::arg("x"), nb::arg("y"), nb::arg("exec"))
        .def(
            "solve",
            [](const RidgeStream& s, const std::vector<std::string>& classes, const PyExec& exec) {
                return interruptible(exec, [&](const Exec& e) { return s.solve(classes, e); });
            },
            nb::arg("classes"), nb::arg("exec"));
    m.def("fit_classifier", &classifier, nb::arg("settings"), nb::arg("x"), nb::arg("y"), nb::arg("classes"),
          nb::arg("seed"), nb::arg("exec"));
    m.def("fit_regressor", &regressor, nb::arg("settings"), nb::arg("x"), nb::arg("y"), nb::arg("seed"),
          nb::arg("exec"));
    m.def("ridge_stream", &stream, nb::arg("settings"), nb::arg("x"), nb::arg("outputs"), nb::arg("seed"),
          nb::arg("exec"));
    m.def("load_ridge", &load_ridge, nb::arg("path"), nb::arg("product_seed"), nb::arg("chip").none(),
          nb::arg("exec"));
}

}  // namespace imka::python
