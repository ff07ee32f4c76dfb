// Data sets as NumPy arrays.

#include "arrays.hpp"
#include "imka/data/dataset.hpp"
#include "interruptible.hpp"
#include "module.hpp"
#include "settings.hpp"

namespace imka::python {
namespace {

nb::dict part_of(Part part, bool regression) {
    nb::dict out;
    out["x"] = to_numpy(std::move(part.x));
    if (regression) {
        out["y"] = to_numpy(std::move(part.target));
    } else {
        out["y"] = to_numpy(std::move(part.y));
    }
    return out;
}

nb::dict load(const Settings& settings, const std::filesystem::path& data_dir, const nb::dict& more,
              const PyExec& exec) {
    const auto config = run_config(settings);
    auto options = load_options(config, data_dir);
    if (more.contains("standardize")) options.standardize = nb::cast<bool>(more["standardize"]);
    if (more.contains("train_rows")) options.train_rows = nb::cast<std::uint64_t>(more["train_rows"]);
    if (more.contains("test_rows")) options.test_rows = nb::cast<std::uint64_t>(more["test_rows"]);
    auto data = interruptible(exec, [&](const Exec& e) { return load_dataset(config.dataset, options, e); });
    const bool regression = config.task == Task::regression;
    nb::dict out;
    out["name"] = data.name;
    out["classes"] = data.classes;
    out["source_sha256"] = data.source_sha256;
    out["train"] = part_of(std::move(data.train), regression);
    out["test"] = part_of(std::move(data.test), regression);
    return out;
}

}  // namespace

void bind_data(nb::module_& m) {
    m.def("load_dataset", &load, nb::arg("settings"), nb::arg("data_dir"), nb::arg("more"), nb::arg("exec"));
}

}  // namespace imka::python
