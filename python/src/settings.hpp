// Settings from Python: text by name, for the field lists of the library.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <string>

#include "imka/base/config.hpp"
#include "imka/chip/build.hpp"
#include "imka/experiment/run.hpp"

namespace imka::python {

namespace nb = nanobind;

using Settings = std::map<std::string, std::string>;

// Sets the named fields; Error{bad_config} for unknown names and values out of range.
void apply_settings(const Settings& settings, const Fields& fields);

// The defaults with these settings, validated.
RunConfig run_config(const Settings& settings);
BuildConfig build_config(const Settings& settings);

void bind_settings(nb::module_& m);

}  // namespace imka::python
