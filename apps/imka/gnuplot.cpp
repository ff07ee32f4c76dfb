#include "gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"

namespace imka::app {
namespace {

namespace fs = std::filesystem;

// A temporary folder next to the figures, removed on success and on failure.
class WorkFolder {
public:
    explicit WorkFolder(const fs::path& parent) : path_(parent / fmt::format(".imka-figures-{}", getpid())) {
        std::error_code error;
        fs::create_directories(path_, error);
        if (error) fail(ErrorCode::io, fmt::format("{}: {}", path_.string(), error.message()));
    }
    ~WorkFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    WorkFolder(const WorkFolder&) = delete;
    WorkFolder& operator=(const WorkFolder&) = delete;
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

void run_gnuplot(const fs::path& script, const fs::path& messages) {
    std::string program = "gnuplot";
    std::string file = script.string();
    char* arguments[] = {program.data(), file.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    pid_t child = 0;
    const int error = posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT) {
        fail(ErrorCode::missing_part,
             "--figures needs gnuplot, which is not installed: apt-get install gnuplot-nox");
    }
    if (error != 0) fail(ErrorCode::io, fmt::format("gnuplot: {}", std::generic_category().message(error)));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail(ErrorCode::io,
             fmt::format("gnuplot could not draw the figures: {}", read_file(messages, 1U << 20U)));
    }
}

void take_drawing(const fs::path& drawn, const fs::path& file) {
    if (!fs::is_regular_file(drawn))
        fail(ErrorCode::io, fmt::format("{}: not written by gnuplot", file.string()));
    constexpr std::size_t kLargest = std::size_t{1} << 30U;
    write_file_atomic(file, read_file(drawn, kLargest));
}

// "svg" of "a.svg"
std::string format_of(const fs::path& file) {
    const auto ending = file.extension().string();
    return ending.empty() ? "" : ending.substr(1);
}

}  // namespace

bool gnuplot_installed() {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (access((fs::path(folder) / "gnuplot").c_str(), X_OK) == 0) return true;
    }
    return false;
}

std::vector<fs::path> draw_figures(const std::vector<report::Plot>& plots, const fs::path& folder) {
    std::vector<fs::path> files;
    const WorkFolder work(folder);
    write_file_atomic(work.path() / "figures.gp", report::gnuplot_script(plots, work.path()));
    run_gnuplot(work.path() / "figures.gp", work.path() / "messages");
    for (const auto& plot : plots) {
        for (const auto* ending : {".svg", ".pdf"}) {
            const auto name = plot.id + ending;
            take_drawing(work.path() / name, folder / name);
            files.push_back(folder / name);
        }
    }
    return files;
}

void draw_file(const report::Plot& plot, const fs::path& file) {
    check_figure(file);
    const WorkFolder work(file.has_parent_path() ? file.parent_path() : fs::path("."));
    const auto drawn = work.path() / "figure";
    write_file_atomic(work.path() / "figure.gp", report::gnuplot_script(plot, drawn, format_of(file)));
    run_gnuplot(work.path() / "figure.gp", work.path() / "messages");
    take_drawing(drawn, file);
}

void check_figure(const fs::path& file) {
    if (file.empty()) return;
    const auto format = format_of(file);
    if (format != "svg" && format != "pdf" && format != "png")
        fail(ErrorCode::bad_usage,
             fmt::format("--figure {}: the name must end in .svg, .pdf or .png", file.string()));
    check_folder(file);
    if (!gnuplot_installed())
        fail(ErrorCode::missing_part,
             "--figure needs gnuplot, which is not installed: apt-get install gnuplot-nox");
}

}  // namespace imka::app
