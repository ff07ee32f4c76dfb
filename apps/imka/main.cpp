// The imka program: verbs that follow the flow of data. Exit codes: 0 success, 1 a check failed, 2 bad usage,
// 3 bad input data or a file that cannot be read or written, 4 a missing optional part, 130 interrupted.
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/version.hpp"
#include "terminal.hpp"

namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

extern "C" void on_signal(int signal) {
    interrupted = true;
    // A second signal ends the program at once.
    std::signal(signal, SIG_DFL);
}

int run(int argc, char** argv) {
    CLI::App root("imka: kernel approximation with random features, in FP32 and on an emulated analog chip",
                  "imka");
    root.set_version_flag("--version", fmt::format("imka {}", imka::build_info().version));
    root.require_subcommand(1);
    root.footer("Run 'imka VERB --help' for the options of a verb and worked examples.");

    imka::app::TerminalProgress progress;
    imka::app::TerminalLog log;
    imka::app::Context context;
    context.exec = {.threads = 0, .progress = &progress, .log = &log, .cancel = &interrupted};
    // CLI11's envname would overwrite --data-dir from verbs that were not called.
    if (const char* dir = std::getenv("IMKA_DATA")) context.data_dir = dir;
    imka::app::add_data(root, context);
    imka::app::add_features(root, context);
    imka::app::add_gram(root, context);
    imka::app::add_ridge(root, context);
    imka::app::add_sweep(root, context);
    imka::app::add_validate(root, context);
    imka::app::add_report(root, context);
    imka::app::add_reproduce(root, context);
    imka::app::add_chip(root, context);
    imka::app::add_bench(root, context);
    imka::app::add_doctor(root, context);
    imka::app::add_completion(root, context);
    try {
        root.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return root.exit(e) == 0 ? 0 : 2;
    }
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return context.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit is a write error, not a crash
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return run(argc, argv);
    } catch (const imka::Error& e) {
        fmt::print(stderr, "imka: {}\n", e.what());
        return imka::app::exit_code(e.code());
    } catch (const std::system_error& e) {
        // The reader (head, less) closed the pipe: exit quietly.
        if (e.code() == std::errc::broken_pipe) return 141;
        fmt::print(stderr, "imka: {}\n", e.what());
        return 3;
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "imka: out of memory: use fewer components or rows\n");
        return 3;
    } catch (const std::exception& e) {
        fmt::print(stderr, "imka: {}\n", e.what());
        return 3;
    }
}
