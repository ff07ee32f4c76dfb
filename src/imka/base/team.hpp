// Processes that do one piece of work together, each with all of the input in reach. Who they are and how
// they talk is the caller's (experiment/mpi); code that can share its work takes them from Exec.
#pragma once

#include <cstddef>
#include <span>

namespace imka {

class Team {
public:
    virtual ~Team() = default;
    virtual std::size_t rank() const = 0;  // of this process, from 0
    virtual std::size_t size() const = 0;
    // A member waits until its partner does the other half.
    virtual void send(std::size_t to, std::span<const double> values) const = 0;
    virtual void receive(std::size_t from, std::span<double> values) const = 0;
};

// What member 0 has goes to all others.
void broadcast(const Team& team, std::span<double> values);

// The sum of all members' values, everywhere. Added in the order of ranks, so exact for whole numbers only.
double sum_over(const Team& team, double value);

// The rows that this process has of `rows`: a contiguous part, nearly equal ones.
struct RowRange {
    std::size_t first = 0;
    std::size_t count = 0;
};
RowRange my_rows(const Team* team, std::size_t rows);

}  // namespace imka
