#include "program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <system_error>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/base/version.hpp"
#include "imka/cuda/status.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

// The first signal asks the work to stop. A second one, or no end within the grace period (a reader that
// waits for a pipe never checks), ends the program at once; unfinished files are removed.
constexpr unsigned kGraceSeconds = 3;

extern "C" void on_signal(int signal) {
    if (signal == SIGALRM || interrupted.exchange(true)) {
        remove_temporary_files();
        _exit(130);
    }
    alarm(kGraceSeconds);
}

void handle_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        // Signals that the caller ignores stay ignored (nohup, background jobs).
        if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
    }
    std::signal(SIGALRM, on_signal);
    std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit is a write error, not a crash
    std::signal(SIGPIPE, SIG_IGN);
}

// A closed standard stream would give its number to the next file that is opened, and messages would end up
// in that file. Writing to a closed standard output stays an error.
void open_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) != stream) _exit(3);
    }
}

// The innermost verb that the arguments name.
const CLI::App& named_verb(const CLI::App& root, int argc, char** argv) {
    const auto* verb = &root;
    for (int i = 1; i < argc; ++i) {
        const auto found =
            verb->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == argv[i]; });
        if (found.empty()) break;
        verb = found.front();
    }
    return *verb;
}

// Rejects missing and empty values: CLI11 takes any next argument as the value of an option.
void check_arguments(const CLI::App& root, int argc, char** argv) {
    const auto& verb = named_verb(root, argc, argv);
    for (int i = 1; i < argc; ++i) {
        const std::string_view text = argv[i];
        const auto* option = text.starts_with("--") ? verb.get_option_no_throw(argv[i]) : nullptr;
        if (option != nullptr && option->get_items_expected_min() > 0 &&
            (i + 1 == argc || std::string_view(argv[i + 1]).starts_with("--")))
            fail(ErrorCode::bad_usage, fmt::format("'{}' has no value", text));
        if (text.empty())
            fail(ErrorCode::bad_usage, fmt::format("the argument after '{}' is empty", argv[i - 1]));
        if (text.starts_with("--") && text.find('=') == text.size() - 1)
            fail(ErrorCode::bad_usage, fmt::format("'{}' has no value", text));
    }
}

// The innermost verb of the parsed command line.
const CLI::App& called_verb(const CLI::App& root) {
    const auto verbs = root.get_subcommands();
    return verbs.empty() ? root : called_verb(*verbs.front());
}

// "did you mean" for a word that CLI11 did not expect; empty if it is not a name.
std::string suggestion(const CLI::App& root, const std::string& word) {
    const auto& verb = called_verb(root);
    std::vector<std::string> names;
    if (word.starts_with("--")) {
        for (const auto* option : verb.get_options()) {
            for (const auto& name : option->get_lnames()) names.push_back("--" + name);
        }
    } else {
        for (const auto* known :
             verb.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); }))
            names.push_back(known->get_name());
    }
    if (names.empty()) return {};
    const auto what = word.starts_with("--") ? "option" : "command";
    return fmt::format("imka: unknown {} '{}'; {}\n", what, word.substr(0, word.find('=')).substr(0, 80),
                       nearest_names(word.substr(0, word.find('=')),
                                     std::vector<std::string_view>(names.begin(), names.end())));
}

// Prints help, the version or an error of the command line.
int finish_parse(const CLI::App& root, const CLI::ParseError& error) {
    const auto extras = called_verb(root).remaining();
    if (error.get_exit_code() != 0 && !extras.empty()) {
        if (const auto text = suggestion(root, extras.front()); !text.empty()) {
            write_error(text);
            return 2;
        }
    }
    std::ostringstream out;
    std::ostringstream err;
    const bool good = root.exit(error, out, err) == 0;
    write_out(out.str());
    write_error(err.str());
    return good ? 0 : 2;
}

int run_on_terminal(int argc, char** argv, const Trainer& train) {
    TerminalProgress progress;
    TerminalLog log;
    Context context;
    context.train = train;
    context.arguments.assign(argv, argv + argc);
    context.exec = {.threads = 0, .progress = &progress, .log = &log, .cancel = &interrupted};
    // CLI11's envname would overwrite --data-dir from verbs that were not called.
    if (const char* dir = std::getenv("IMKA_DATA")) context.data_dir = dir;
    const int code = run_command(argc, argv, context);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return code;
}

}  // namespace

int run_command(int argc, char** argv, Context& context) {
    CLI::App root("imka: kernel approximation with random features, in FP32 and on an emulated analog chip",
                  "imka");
    root.set_version_flag("--version", fmt::format("imka {}", build_info().version));
    root.require_subcommand(1);
    root.footer("Run 'imka VERB --help' for the options of a verb and worked examples.");

    add_data(root, context);
    add_features(root, context);
    add_gram(root, context);
    add_ridge(root, context);
    add_attention(root, context);
    add_train(root, context);
    add_eval(root, context);
    add_sweep(root, context);
    add_validate(root, context);
    add_report(root, context);
    add_reproduce(root, context);
    add_chip(root, context);
    add_map(root, context);
    add_deploy(root, context);
    add_run(root, context);
    add_cost(root, context);
    add_bench(root, context);
    add_doctor(root, context);
    add_completion(root, context);
    check_arguments(root, argc, argv);
    try {
        root.parse(argc, argv);
        return context.exit_code;
    } catch (const CLI::ParseError& e) {
        return finish_parse(root, e);
    }
}

int run_program(int argc, char** argv, const Trainer& train) {
    open_standard_streams();
    handle_signals();
    try {
        return run_on_terminal(argc, argv, train);
    } catch (const cuda::DeviceLost& e) {
        print_error("imka: {}\n", e.what());
        std::quick_exit(exit_code(e.code()));  // exit handlers of the driver may wait forever
    } catch (const Error& e) {
        print_error("imka: {}\n", e.what());
        return exit_code(e.code());
    } catch (const std::filesystem::filesystem_error& e) {
        print_error("imka: {}: {}\n", e.path1().string(), e.code().message());
    } catch (const std::system_error& e) {
        // The reader (head, less) closed the pipe: exit quietly.
        if (e.code() == std::errc::broken_pipe) return 141;
        print_error("imka: {}\n", e.what());
    } catch (const std::bad_alloc&) {
        print_error("imka: out of memory\n");
    } catch (const std::exception& e) {
        print_error("imka: {}\n", e.what());
    }
    return 3;
}

}  // namespace imka::app
