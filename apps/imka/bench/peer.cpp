// Runs the same work in Python, with scikit-learn and PyTorch.
#include "bench/bench.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace imka::embedded {
extern const std::string_view peer_script;
}

namespace imka::app {
namespace {

constexpr int kPollMilliseconds = 200;

// The environment, with the peer's threads limited to the same number as ours.
std::vector<std::string> peer_environment(const Exec& exec) {
    std::vector<std::string> all;
    if (exec.threads > 0) {
        // These come first: of duplicate names, the first one counts.
        for (const auto* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
            all.push_back(fmt::format("{}={}", name, exec.threads));
    }
    for (char** e = environ; *e != nullptr; ++e) all.emplace_back(*e);
    return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (auto& t : texts) list.push_back(t.data());
    list.push_back(nullptr);
    return list;
}

void close_if_open(int& file) {
    if (file >= 0) close(file);
    file = -1;
}

}  // namespace

Peer::Peer(const std::string& python, const Exec& exec) : exec_(exec) {
    start(python);
}

void Peer::start(const std::string& python) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0) return;
    if (pipe2(out.data(), O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> arguments = {python, "-c", std::string(embedded::peer_script)};
    auto environment = peer_environment(exec_);
    if (posix_spawnp(&child_, python.c_str(), &actions, nullptr, pointers(arguments).data(),
                     pointers(environment).data()) != 0) {
        child_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_child_ = in[1];
    from_child_ = out[0];
}

Peer::~Peer() {
    close_if_open(to_child_);
    close_if_open(from_child_);
    if (child_ > 0) {
        // The child may be in the middle of a round.
        kill(child_, SIGTERM);
        waitpid(child_, nullptr, 0);
    }
}

std::optional<std::string> Peer::exchange(const std::string& line) {
    if (child_ < 0) return std::nullopt;
    const std::string sent = line + "\n";
    if (write(to_child_, sent.data(), sent.size()) != static_cast<ssize_t>(sent.size())) return std::nullopt;
    for (;;) {
        if (const auto end = received_.find('\n'); end != std::string::npos) {
            auto reply = received_.substr(0, end);
            received_.erase(0, end + 1);
            return reply;
        }
        check_cancelled(exec_);
        pollfd ready{.fd = from_child_, .events = POLLIN, .revents = 0};
        if (poll(&ready, 1, kPollMilliseconds) <= 0) continue;
        std::array<char, 4096> bytes{};
        const auto count = read(from_child_, bytes.data(), bytes.size());
        if (count <= 0) return std::nullopt;
        received_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

std::string Peer::hello() {
    const auto reply = exchange("hello").value_or("");
    return nlohmann::json::accept(reply) ? reply : "";
}

PeerAnswer Peer::ask(const std::string& line) {
    const auto reply = exchange(line);
    if (!reply) return {.error = "the interpreter has ended"};
    const std::string_view text = *reply;
    if (text.starts_with("missing ")) return {.missing = std::string(text.substr(8))};
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return {.value = value};
    return {.error = text.starts_with("error ") ? std::string(text.substr(6)) : *reply};
}

PeerAnswer Peer::run(const std::string& name, const std::string& sizes) {
    return ask(fmt::format("run {} {}", name, sizes));
}

PeerAnswer Peer::check(const std::string& name, const std::string& sizes) {
    return ask(fmt::format("check {} {}", name, sizes));
}

void Peer::forget() {
    exchange("forget");
}

std::unique_ptr<Peer> find_peer(const std::string& python, const Exec& exec) {
    std::vector<std::string> candidates = {"/usr/bin/python3", "python3"};
    if (!python.empty()) candidates = {python};
    std::unique_ptr<Peer> first;
    for (const auto& candidate : candidates) {
        auto peer = std::make_unique<Peer>(candidate, exec);
        const auto has = nlohmann::json::parse(peer->hello(), nullptr, false);
        if (!has.is_object()) continue;
        if (const auto it = has.find("sklearn"); it != has.end() && it->is_string()) return peer;
        if (!first) first = std::move(peer);
    }
    return first;
}

}  // namespace imka::app
