// Other libraries, called through a Python interpreter: a child process runs one round per request, so rounds
// of both sides can alternate. The child runs bench/peers/peer.py.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "imka/base/exec.hpp"

namespace imka::app {

// Exactly one of value, missing and error is set.
struct PeerAnswer {
    std::optional<double> value;  // seconds of a round, or the result of a check
    std::string missing;          // package that provides the peer
    std::string error;
};

class Peer {
public:
    // Starts the interpreter with the script; the first reply reports a missing interpreter.
    Peer(const std::string& python, const Exec& exec);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    // {"python": "3.11.2", "sklearn": "1.2.1", "torch": null, ...}; empty if the child does not reply.
    std::string hello();
    PeerAnswer run(const std::string& name, const std::string& sizes);
    PeerAnswer check(const std::string& name, const std::string& sizes);
    // Drops the data kept between rounds.
    void forget();

private:
    void start(const std::string& python);
    PeerAnswer ask(const std::string& line);
    // The reply without its line break; nullopt if the child has ended. Error{interrupted} on cancellation.
    std::optional<std::string> exchange(const std::string& line);

    Exec exec_;
    pid_t child_ = -1;
    int to_child_ = -1;
    int from_child_ = -1;
    std::string received_;
};

// The given interpreter, or the first of /usr/bin/python3 and python3 that has scikit-learn, or the first
// that starts. nullptr if none starts.
std::unique_ptr<Peer> find_peer(const std::string& python, const Exec& exec);

}  // namespace imka::app
