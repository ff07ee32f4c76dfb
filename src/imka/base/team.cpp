#include "imka/base/team.hpp"

namespace imka {

void broadcast(const Team& team, std::span<double> values) {
    if (team.rank() > 0) {
        team.receive(0, values);
        return;
    }
    for (std::size_t to = 1; to < team.size(); ++to) team.send(to, values);
}

double sum_over(const Team& team, double value) {
    if (team.rank() > 0) {
        team.send(0, std::span(&value, 1));
    } else {
        for (std::size_t from = 1; from < team.size(); ++from) {
            double other = 0.0;
            team.receive(from, std::span(&other, 1));
            value += other;
        }
    }
    broadcast(team, std::span(&value, 1));
    return value;
}

RowRange my_rows(const Team* team, std::size_t rows) {
    if (team == nullptr) return {.first = 0, .count = rows};
    const auto begin = [&](std::size_t rank) { return rows * rank / team->size(); };
    return {.first = begin(team->rank()), .count = begin(team->rank() + 1) - begin(team->rank())};
}

}  // namespace imka
