// The verbs of the program, called with their command line.

#include <string>
#include <vector>

#include "interruptible.hpp"
#include "module.hpp"
#include "program.hpp"

namespace imka::python {
namespace {

// argc and argv of a program with these arguments.
class Arguments {
public:
    explicit Arguments(std::vector<std::string> arguments) : texts_(std::move(arguments)) {
        texts_.insert(texts_.begin(), "imka");
        for (auto& text : texts_) pointers_.push_back(text.data());
        pointers_.push_back(nullptr);
    }
    int count() const { return static_cast<int>(texts_.size()); }
    char** values() { return pointers_.data(); }

private:
    std::vector<std::string> texts_;
    std::vector<char*> pointers_;
};

// Exit code, standard output and messages.
nb::tuple command(const std::vector<std::string>& arguments, const std::filesystem::path& data_dir,
                  const PyExec& exec) {
    Arguments line(arguments);
    int code = 0;
    std::string out;
    std::string error;
    interruptible(exec, [&](const Exec& e) {
        app::CapturedText text;
        app::Context context{.exec = e, .data_dir = data_dir};
        code = app::run_command(line.count(), line.values(), context);
        out = std::move(text.out);
        error = std::move(text.error);
    });
    return nb::make_tuple(code, out, error);
}

}  // namespace

void bind_command(nb::module_& m) {
    m.def("command", &command, nb::arg("arguments"), nb::arg("data_dir"), nb::arg("exec"),
          "Runs a verb of the program. Returns exit code, standard output and messages.");
    m.def(
        "program",
        [](const std::vector<std::string>& arguments) {
            Arguments line(arguments);
            return app::run_program(line.count(), line.values());
        },
        nb::arg("arguments"), nb::call_guard<nb::gil_scoped_release>(),
        "The program itself: prints, handles signals, returns the exit code.");
}

}  // namespace imka::python
