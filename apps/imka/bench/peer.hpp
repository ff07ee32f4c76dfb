// Other libraries behind a Python interpreter: a child process that runs one round when asked, so that rounds
// of both sides can alternate. bench/peers/peer.py is its other half.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "imka/base/exec.hpp"

namespace imka::app {

// One of value, missing and error.
struct PeerAnswer {
    std::optional<double> value;  // seconds of a round, or what a check gives
    std::string missing;          // what would bring the peer
    std::string error;
};

class Peer {
public:
    // Starts the interpreter with the script; no interpreter there is seen in the first answer.
    Peer(const std::string& python, const Exec& exec);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    // {"python": "3.11.2", "sklearn": "1.2.1", "torch": null, ...}; empty when the child does not speak.
    std::string hello();
    PeerAnswer run(const std::string& name, const std::string& sizes);
    PeerAnswer check(const std::string& name, const std::string& sizes);
    // Drops the data that rounds have kept.
    void forget();

private:
    void start(const std::string& python);
    PeerAnswer ask(const std::string& line);
    // The reply without its line break; nullopt when the child has ended. Error{interrupted} on a stop.
    std::optional<std::string> exchange(const std::string& line);

    Exec exec_;
    pid_t child_ = -1;
    int to_child_ = -1;
    int from_child_ = -1;
    std::string received_;
};

// The interpreter given, or the first of /usr/bin/python3 and python3 that has scikit-learn, or the first
// that starts. Null when none does.
std::unique_ptr<Peer> find_peer(const std::string& python, const Exec& exec);

}  // namespace imka::app
