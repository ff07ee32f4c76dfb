#include "module.hpp"

#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/version.hpp"
#include "imka/graph/onnx_import.hpp"
#include "interruptible.hpp"
#include "settings.hpp"

namespace imka::python {
namespace {

// The Python class of an error (imka/_errors.py).
const char* class_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::bad_usage:
        case ErrorCode::bad_config:
            return "ConfigError";
        case ErrorCode::bad_data:
            return "DataError";
        case ErrorCode::io:
            return "FileError";
        case ErrorCode::numeric:
            return "NumericError";
        case ErrorCode::missing_part:
            return "MissingPartError";
        case ErrorCode::interrupted:
            break;
    }
    return "Error";
}

void translate(const std::exception_ptr& error, void* /*payload*/) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& e) {
        PyErr_SetString(nb::module_::import_("imka._errors").attr(class_of(e.code())).ptr(), e.what());
    } catch (const std::filesystem::filesystem_error& e) {
        PyErr_SetString(nb::module_::import_("imka._errors").attr("FileError").ptr(), e.what());
    }
}

}  // namespace

NB_MODULE(_imka, m) {
    nb::register_exception_translator(&translate);
    m.doc() = "Bindings of the C++ library. Use the package imka instead.";
    m.attr("version") = std::string(build_info().version);
    m.def("has_onnx", &graph::has_onnx, "Whether this build can read ONNX models.");
    m.def(
        "parse_duration", [](const std::string& text) { return parse_duration(text, "time"); },
        nb::arg("text"), "Seconds of '90', '30min', '1h', '7d' or '1y'.");
    bind_exec(m);
    bind_settings(m);
    bind_features(m);
    bind_ridge(m);
    bind_chip(m);
    bind_model(m);
    bind_data(m);
    bind_attention(m);
    bind_command(m);
}

}  // namespace imka::python
