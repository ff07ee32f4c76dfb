#include "imka/experiment/mpi.hpp"

#include "imka/base/error.hpp"

#if IMKA_HAVE_MPI
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#endif

namespace imka {

#if IMKA_HAVE_MPI
namespace {

void check(int status, const char* call) {
    if (status == MPI_SUCCESS) return;
    std::string text(MPI_MAX_ERROR_STRING, '\0');
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    text.resize(static_cast<std::size_t>(length));
    fail(ErrorCode::io, fmt::format("{} failed: {}", call, text));
}

// MPI counts are int.
constexpr std::size_t kMaxMessage = std::size_t{1} << 28;

class MpiTeam : public Team {
public:
    MpiTeam() {
        int provided = 0;
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
        check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
        check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    }
    ~MpiTeam() override { MPI_Finalize(); }
    MpiTeam(const MpiTeam&) = delete;
    MpiTeam& operator=(const MpiTeam&) = delete;

    std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
    std::size_t size() const override { return static_cast<std::size_t>(size_); }
    void send(std::size_t to, std::span<const double> values) const override {
        for (std::size_t first = 0; first < values.size(); first += kMaxMessage) {
            const auto part = values.subspan(first, std::min(kMaxMessage, values.size() - first));
            check(MPI_Send(part.data(), static_cast<int>(part.size()), MPI_DOUBLE, static_cast<int>(to), 0,
                           MPI_COMM_WORLD),
                  "MPI_Send");
        }
    }
    void receive(std::size_t from, std::span<double> values) const override {
        for (std::size_t first = 0; first < values.size(); first += kMaxMessage) {
            const auto part = values.subspan(first, std::min(kMaxMessage, values.size() - first));
            check(MPI_Recv(part.data(), static_cast<int>(part.size()), MPI_DOUBLE, static_cast<int>(from), 0,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                  "MPI_Recv");
        }
    }

private:
    int rank_ = 0;
    int size_ = 1;
};

}  // namespace

bool has_mpi() {
    return true;
}

std::unique_ptr<Team> start_mpi_team() {
    return std::make_unique<MpiTeam>();
}

void abort_mpi_job(int exit_code) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

#else

bool has_mpi() {
    return false;
}

std::unique_ptr<Team> start_mpi_team() {
    fail(ErrorCode::missing_part,
         "this imka was built without MPI; install libopenmpi-dev and build it again with -DIMKA_MPI=ON");
}

void abort_mpi_job(int) {}

#endif

}  // namespace imka
