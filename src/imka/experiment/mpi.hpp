// The processes that mpirun or srun started together, as a team. The only place that knows MPI.
#pragma once

#include <memory>

#include "imka/base/team.hpp"

namespace imka {

// Whether this build has MPI (CMake option IMKA_MPI).
bool has_mpi();

// Begins MPI; the team ends it. Once a process, from the main thread, which alone may use the team.
// Error{missing_part} in a build without MPI.
std::unique_ptr<Team> start_mpi_team();

// Ends all processes of the job at once: the others may wait for what this one will never send.
void abort_mpi_job(int exit_code);

}  // namespace imka
