// A Team of threads instead of processes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "imka/base/team.hpp"

namespace imka {

// Sent values not yet received, in order, by sender and receiver.
class Mailboxes {
public:
    void put(std::size_t from, std::size_t to, std::span<const double> values) {
        const std::scoped_lock lock(mutex_);
        boxes_[{from, to}].emplace_back(values.begin(), values.end());
        changed_.notify_all();
    }
    void take(std::size_t from, std::size_t to, std::span<double> values) {
        std::unique_lock lock(mutex_);
        auto& box = boxes_[{from, to}];
        changed_.wait(lock, [&] { return !box.empty(); });
        std::copy(box.front().begin(), box.front().end(), values.begin());
        box.erase(box.begin());
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::vector<double>>> boxes_;
};

class ThreadTeam : public Team {
public:
    ThreadTeam(Mailboxes& boxes, std::size_t rank, std::size_t size)
        : boxes_(&boxes), rank_(rank), size_(size) {}
    std::size_t rank() const override { return rank_; }
    std::size_t size() const override { return size_; }
    void send(std::size_t to, std::span<const double> values) const override {
        boxes_->put(rank_, to, values);
    }
    void receive(std::size_t from, std::span<double> values) const override {
        boxes_->take(from, rank_, values);
    }

private:
    Mailboxes* boxes_;
    std::size_t rank_;
    std::size_t size_;
};

// Runs body concurrently, once per member.
inline void run_team(std::size_t size, const std::function<void(const Team&)>& body) {
    Mailboxes boxes;
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] { body(ThreadTeam(boxes, rank, size)); });
    }
}

}  // namespace imka
