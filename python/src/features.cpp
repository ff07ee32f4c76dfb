// Random features: settings and training rows in, z(x) out.

#include <algorithm>
#include <memory>

#include "arrays.hpp"
#include "imka/deploy/chip_file.hpp"
#include "interruptible.hpp"
#include "module.hpp"
#include "on_chip.hpp"
#include "settings.hpp"

namespace imka::python {
namespace {

struct Features {
    FeatureMap map;
    std::uint64_t product_seed = 0;
    std::optional<BuiltChip> chip = {};
};

Features fit_features(const Settings& settings, const FloatRows& x, std::uint64_t seed, const PyExec& exec) {
    const auto config = run_config(settings);
    const auto rows = view_of(x);
    return interruptible(exec, [&](const Exec& e) -> Features {
        const auto recipe = recipe_of(config, rows, seed);
        if (!config.backend.is_chip()) return {.map = FeatureMap(recipe, e)};
        const auto seeds = test_seeds(config.chip, seed);
        auto built = chip_of(config, recipe, rows, seeds.chip, e);
        auto map = map_on(built, recipe, e);
        return {.map = std::move(map), .product_seed = seeds.products, .chip = std::move(built)};
    });
}

UnsetMatrix<float> new_features(const Features& features, std::size_t rows) {
    const auto columns = features.map.features();
    check_fits_memory(static_cast<double>(rows), static_cast<double>(columns), sizeof(float),
                      "the feature matrix");
    return {rows, columns};
}

// Digital features are fast, so they are computed on this thread, without the GIL, with a check for signals
// about every 0.1 s. A separate thread would cost more on a busy machine.
void transform_digitally(const Features& features, MatrixView<const float> x, const ProductIds& ids,
                         const PyExec& exec, MatrixView<float> z) {
    constexpr std::size_t kValues = std::size_t{1} << 27U;
    const std::size_t rows = std::max<std::size_t>(1024, kValues / std::max<std::size_t>(1, z.cols()));
    for (std::size_t first = 0; first < x.rows(); first += rows) {
        const std::size_t count = std::min(rows, x.rows() - first);
        {
            const nb::gil_scoped_release release;
            features.map.transform(x.slice_rows(first, count), {ids.seed, ids.first + first},
                                   {.threads = exec.threads}, z.slice_rows(first, count));
        }
        if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    }
}

NumpyMatrix<float> transform(const Features& features, const FloatRows& x, std::uint64_t first,
                             const PyExec& exec) {
    const auto rows = view_of(x);
    const ProductIds ids{features.product_seed, first};
    auto z = new_features(features, rows.rows());
    if (features.chip) {
        interruptible(exec, [&](const Exec& e) { features.map.transform(rows, ids, e, z.view()); });
    } else {
        transform_digitally(features, rows, ids, exec, z.view());
    }
    return to_numpy(std::move(z));
}

// The work of transform alone, to measure what Python adds (python/bench/overhead.py).
void transform_only(const Features& features, const FloatRows& x, const PyExec& exec) {
    const auto rows = view_of(x);
    const nb::gil_scoped_release release;
    const auto z = new_features(features, rows.rows());
    features.map.transform(rows, {features.product_seed}, {.threads = exec.threads}, z.view());
}

Settings recipe_text(const Features& features) {
    auto recipe = features.map.recipe();
    Settings texts;
    for (const auto& f : fields(recipe)) texts[f.name] = plain_text(f);
    return texts;
}

// From a recipe and, if the features were computed on a chip, the file of the chip.
Features load_features(const Settings& recipe_settings, std::uint64_t product_seed,
                       const std::optional<ChipParts>& chip, const PyExec& exec) {
    FeatureRecipe recipe;
    apply_settings(recipe_settings, fields(recipe));
    validate(recipe);
    return interruptible(exec, [&](const Exec& e) -> Features {
        if (!chip) return {.map = FeatureMap(recipe, e), .product_seed = product_seed};
        auto built = read_chip(*chip);
        auto map = map_on(built, recipe, e);
        return {.map = std::move(map), .product_seed = product_seed, .chip = std::move(built)};
    });
}

}  // namespace

void bind_features(nb::module_& m) {
    nb::class_<Features>(m, "Features", "A feature map z(x), digital or on a chip.")
        .def_prop_ro("n_features_in", [](const Features& f) { return f.map.inputs(); })
        .def_prop_ro("n_components", [](const Features& f) { return f.map.features(); })
        .def_prop_ro("product_seed", [](const Features& f) { return f.product_seed; })
        .def("recipe", &recipe_text, "The recipe that defines the features, as text by name.")
        .def(
            "omega", [](const Features& f) { return to_numpy(sample(f.map.recipe().omega)); },
            "The directions, one per row.")
        .def("transform", &transform, nb::arg("x"), nb::arg("first"), nb::arg("exec"))
        .def("transform_only", &transform_only, nb::arg("x"), nb::arg("exec"),
             "Transforms and discards the result: the work without Python.")
        .def(
            "save_chip",
            [](const Features& f, const std::filesystem::path& path) { return save_chip(f.chip, path); },
            nb::arg("path"), "Writes the chip to a file; None without a chip.");
    m.def("fit_features", &fit_features, nb::arg("settings"), nb::arg("x"), nb::arg("seed"), nb::arg("exec"));
    m.def("load_features", &load_features, nb::arg("recipe"), nb::arg("product_seed"), nb::arg("chip").none(),
          nb::arg("exec"));
}

}  // namespace imka::python
