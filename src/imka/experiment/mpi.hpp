// The processes started by mpirun or srun, as a team. The only file that uses MPI.
#pragma once

#include <memory>

#include "imka/base/team.hpp"

namespace imka {

// Whether this build has MPI (CMake option IMKA_MPI).
bool has_mpi();

// Initialises MPI; the team finalises it. Call once per process, from the main thread; only that thread may
// use the team. Error{missing_part} in a build without MPI.
std::unique_ptr<Team> start_mpi_team();

// Aborts all processes of the job: the others may be waiting for a message that this one will never send.
void abort_mpi_job(int exit_code);

}  // namespace imka
