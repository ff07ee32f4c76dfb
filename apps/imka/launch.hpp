// The job that this process was started in: by mpirun, srun, or alone.
#pragma once

namespace imka::app {

struct Launch {
    int rank = 0;
    int size = 1;
    int local_size = 1;  // processes of the job on this machine
};

// From the environment that Open MPI, MPICH and Slurm set. Contradictory or absurd values count as alone.
Launch current_launch();

// Threads a process should take so that those on one machine do not fight: cores / local_size, at least 1.
int threads_per_process(const Launch& launch);

}  // namespace imka::app
