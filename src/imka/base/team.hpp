// Processes that share one computation; each can read the whole input. The caller implements the
// communication (experiment/mpi) and passes a Team in Exec.
#pragma once

#include <cstddef>
#include <span>

namespace imka {

class Team {
public:
    virtual ~Team() = default;
    virtual std::size_t rank() const = 0;  // of this process, in [0, size())
    virtual std::size_t size() const = 0;
    // Both block until the other side calls its counterpart.
    virtual void send(std::size_t to, std::span<const double> values) const = 0;
    virtual void receive(std::size_t from, std::span<double> values) const = 0;
};

// Copies the values of rank 0 to all other ranks.
void broadcast(const Team& team, std::span<double> values);

// The sum over all ranks, returned on every rank. Added in rank order, so it is exact only for integers.
double sum_over(const Team& team, double value);

// The contiguous part of `rows` rows that this process works on; parts are nearly equal.
struct RowRange {
    std::size_t first = 0;
    std::size_t count = 0;
};
RowRange my_rows(const Team* team, std::size_t rows);

}  // namespace imka
