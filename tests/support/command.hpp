// Runs the imka program and captures its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "imka/base/file.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

struct CommandResult {
    int exit_code = 0;
    std::string out;
    std::string err;
};

// The shell parses `arguments`. `before` is prepended to the command, e.g. "ulimit -f 10;".
inline CommandResult run_imka(const std::string& arguments, const std::string& before = "") {
    const TempDir dir;
    const std::string command = before + " '" + binary_dir() + "/imka' " + arguments + " > '" +
                                (dir / "out").string() + "' 2> '" + (dir / "err").string() + "' < /dev/null";
    const int status = std::system(command.c_str());
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = imka::read_file(dir / "out", 1U << 28U),
            .err = imka::read_file(dir / "err", 1U << 28U)};
}

// The document that the command prints with --json.
inline nlohmann::json json_of(const std::string& arguments) {
    const auto r = run_imka(arguments + " --json");
    EXPECT_EQ(r.exit_code, 0) << arguments << "\n" << r.err;
    return nlohmann::json::parse(r.out);
}

// The command ends with the exit code, a message that contains the text, and no other output.
inline void expect_fails(const std::string& arguments, int exit_code, const std::string& message) {
    const auto r = run_imka(arguments);
    EXPECT_EQ(r.exit_code, exit_code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << arguments << "\n" << r.err;
    EXPECT_EQ(r.out, "") << arguments;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}
