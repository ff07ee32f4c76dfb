// Which of several processes of one job this is, from the environment that the launcher made.
#pragma once

namespace imka::app {

struct Ranks {
    int rank = 0;
    int size = 1;
    int local_size = 1;  // on this machine
};

// Knows Open MPI, launchers that speak PMI (MPICH, Intel), and Slurm; one process where none of them is seen.
Ranks find_ranks();

}  // namespace imka::app
