// Chips: constants, programming, ageing, products.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "arrays.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/deploy/chip_file.hpp"
#include "interruptible.hpp"
#include "module.hpp"
#include "on_chip.hpp"
#include "settings.hpp"

namespace imka::python {

BuiltChip read_chip(const ChipParts& parts) {
    const auto& [path, factors, lost_rows] = parts;
    return {.chip = load_chip_file(path), .factors = factors, .lost_rows = lost_rows};
}

std::optional<ChipParts> save_chip(const std::optional<BuiltChip>& built, const std::filesystem::path& path) {
    if (!built) return std::nullopt;
    save_chip_file(path, built->chip);
    return ChipParts{path, built->factors, built->lost_rows};
}

namespace {

// A matrix on a chip, ready to multiply.
struct Programmed {
    BuiltChip built;
    std::unique_ptr<ChipProjector> projector;

    Programmed(BuiltChip chip, const Exec& exec)
        : built(std::move(chip)), projector(projector_on(built, exec)) {}
};

ChipSpec make_chip(const std::string& name, const std::string& constants) {
    return resolve_chip({.name = name}, ChipRun{.chip_set = constants});
}

nb::list constants(const ChipSpec& chip) {
    nb::list list;
    for (const auto& c : describe(chip)) {
        nb::dict entry;
        entry["name"] = c.name;
        entry["value"] = c.value;
        entry["unit"] = c.unit;
        entry["source"] = c.source;
        entry["help"] = c.help;
        list.append(entry);
    }
    return list;
}

// weights: inputs x outputs, as in x @ weights.
std::unique_ptr<Programmed> program_chip(const ChipSpec& chip, const FloatRows& weights,
                                         const FloatRows& inputs, const Settings& settings,
                                         std::uint64_t seed, const PyExec& exec) {
    const auto config = build_config(settings);
    if (inputs.shape(1) != weights.shape(0))
        fail(ErrorCode::bad_data, fmt::format("the calibration inputs have {} columns, the weights {} rows",
                                              inputs.shape(1), weights.shape(0)));
    const auto w = view_of(weights);
    const auto rows = view_of(inputs);
    return interruptible(exec, [&](const Exec& e) {
        Matrix<float> omega(w.cols(), w.rows());
        for (std::size_t r = 0; r < w.rows(); ++r) {
            for (std::size_t c = 0; c < w.cols(); ++c) omega(c, r) = w(r, c);
        }
        const ProjectionJob job{.chip = chip, .omega = omega, .inputs = rows, .config = config, .seed = seed};
        return std::make_unique<Programmed>(build_chip(job, e), e);
    });
}

std::unique_ptr<Programmed> age(const Programmed& chip, double seconds, const std::string& compensation,
                                const PyExec& exec) {
    const auto kind = parse_enum<AgeCompensation>(compensation);
    return interruptible(exec, [&](const Exec& e) {
        auto built = chip.built;
        auto time = built.chip.time;
        time.seconds = seconds;
        built.chip = compensated(aged(std::move(built.chip), time), kind, OutputFit::applied, e);
        return std::make_unique<Programmed>(std::move(built), e);
    });
}

// Seed of the products; if none is given, the seed for the test rows of a run.
std::uint64_t product_seed(const Programmed& chip, std::optional<std::uint64_t> seed) {
    return seed.value_or(test_seeds({}, chip.built.chip.seed).products);
}

NumpyMatrix<float> mvm(const Programmed& chip, const FloatRows& x, std::optional<std::uint64_t> seed,
                       std::uint64_t first, const PyExec& exec) {
    const auto rows = view_of(x);
    const auto outputs = chip.projector->outputs();
    check_fits_memory(static_cast<double>(rows.rows()), static_cast<double>(outputs), sizeof(float),
                      "the matrix of products");
    return to_numpy(interruptible(exec, [&](const Exec& e) {
        UnsetMatrix<float> y(rows.rows(), outputs);
        // In parts, so that Ctrl-C does not wait until all memory has been touched.
        constexpr std::size_t kValues = std::size_t{1} << 26U;
        const std::size_t part = std::max<std::size_t>(1024, kValues / std::max<std::size_t>(1, outputs));
        for (std::size_t r = 0; r < rows.rows(); r += part) {
            const auto count = std::min(part, rows.rows() - r);
            chip.projector->project(rows.slice_rows(r, count), {product_seed(chip, seed), first + r}, e,
                                    y.view().slice_rows(r, count));
        }
        return y;
    }));
}

std::unique_ptr<Programmed> load(const ChipParts& parts, const PyExec& exec) {
    return interruptible(exec,
                         [&](const Exec& e) { return std::make_unique<Programmed>(read_chip(parts), e); });
}

}  // namespace

void bind_chip(nb::module_& m) {
    nb::class_<ChipSpec>(m, "ChipSpec", "Constants of a chip.")
        .def_ro("name", &ChipSpec::name)
        .def_ro("description", &ChipSpec::description)
        .def_prop_ro("hash", [](const ChipSpec& c) { return chip_hash(c); })
        .def_prop_ro("cores", [](const ChipSpec& c) { return core_count(c); })
        .def_prop_ro("core_shape", [](const ChipSpec& c) { return nb::make_tuple(c.core.rows, c.core.cols); })
        .def("constants", &constants)
        .def(
            "text", [](const ChipSpec& c) { return chip_text(c); },
            "The constants as text of a chip file (YAML).")
        .def("program", &program_chip, nb::arg("weights"), nb::arg("inputs"), nb::arg("settings"),
             nb::arg("seed"), nb::arg("exec"));
    nb::class_<Programmed>(m, "ProgrammedChip", "A matrix on a chip.")
        .def_prop_ro("state",
                     [](const Programmed& c) { return std::string(to_string(state_of(c.built.chip))); })
        .def_prop_ro("seconds", [](const Programmed& c) { return c.built.chip.time.seconds; })
        .def_prop_ro("seed", [](const Programmed& c) { return c.built.chip.seed; })
        .def_prop_ro("name", [](const Programmed& c) { return c.built.chip.plan.spec.name; })
        .def_prop_ro("cores", [](const Programmed& c) { return core_count(c.built.chip.plan); })
        .def_prop_ro(
            "corrected",
            [](const Programmed& c) { return !c.built.factors.empty() || c.built.lost_rows != 0; },
            "Whether products use corrections that the chip file does not contain.")
        .def_prop_ro(
            "shape",
            [](const Programmed& c) { return nb::make_tuple(c.projector->inputs(), c.projector->outputs()); })
        .def("mvm", &mvm, nb::arg("x"), nb::arg("seed").none(), nb::arg("first"), nb::arg("exec"))
        .def("age", &age, nb::arg("seconds"), nb::arg("compensation"), nb::arg("exec"))
        .def(
            "save",
            [](const Programmed& c, const std::filesystem::path& path) { return *save_chip(c.built, path); },
            nb::arg("path"));
    m.def("make_chip", &make_chip, nb::arg("name"), nb::arg("constants"));
    m.def("chip_names", &chip_names);
    m.def("load_programmed", &load, nb::arg("parts"), nb::arg("exec"));
}

}  // namespace imka::python
