// The job of this process: started by mpirun, by srun, or alone.
#pragma once

#include "app.hpp"

namespace imka::app {

struct Launch {
    int rank = 0;
    int size = 1;
    int local_size = 1;  // processes of the job on this machine
    int local_rank = 0;  // rank among them
};

// Reads the environment variables of Open MPI, MPICH and Slurm. With contradictory or invalid
// values, the process counts as alone.
Launch current_launch();

// Threads per process that share the cores of one machine: cores / local_size, at least 1.
int threads_per_process(const Launch& launch);

// Processes on one machine take its GPUs in turn, unless a GPU was named by its number.
ComputeDevice device_of_process(const Launch& launch, const Context& context);

}  // namespace imka::app
