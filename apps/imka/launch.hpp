// The job of this process: started by mpirun, by srun, or alone.
#pragma once

namespace imka::app {

struct Launch {
    int rank = 0;
    int size = 1;
    int local_size = 1;  // processes of the job on this machine
};

// Reads the environment variables of Open MPI, MPICH and Slurm. Contradictory or invalid values mean alone.
Launch current_launch();

// Threads per process that share the cores of one machine: cores / local_size, at least 1.
int threads_per_process(const Launch& launch);

}  // namespace imka::app
