// Drivers that record the calls of another driver and replay them, to repeat a run without its chip.
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "imka/chip/driver.hpp"
#include "imka/io/safetensors.hpp"

namespace imka {

// Identifies a call: matrix and rows.
struct CallKey {
    std::uint32_t matrix = 0;
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
    std::size_t rows = 0;
    auto operator<=>(const CallKey&) const = default;
};

// All calls of a run, in an order that does not depend on threads.
struct Recording {
    struct Call {
        Matrix<float> x;
        Matrix<float> y;
        Trace trace;
    };
    std::vector<MatrixShape> shapes;  // of the matrices
    std::multimap<CallKey, Call> calls;
};

// One safetensors file with a checksum (docs/formats.md), written atomically.
void save_recording(const std::filesystem::path& path, const Recording& recording);
// Error{bad_data} that names the file if it is truncated, changed or of another kind.
Recording load_recording(const std::filesystem::path& path);

// Forwards calls and records them in memory.
class RecordingDriver final : public ChipDriver {
public:
    explicit RecordingDriver(std::unique_ptr<ChipDriver> inner);
    std::size_t matrices() const override { return inner_->matrices(); }
    MatrixShape shape(std::uint32_t matrix) const override { return inner_->shape(matrix); }
    Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> y) override;
    // Not thread-safe with concurrent products.
    const Recording& recording() const { return recording_; }

private:
    std::unique_ptr<ChipDriver> inner_;
    std::mutex mutex_;
    Recording recording_;
};

// Replays a recording. Error{bad_usage} for a call that was not recorded: different rows, seed or inputs.
class ReplayingDriver final : public ChipDriver {
public:
    explicit ReplayingDriver(Recording recording) : recording_(std::move(recording)) {}
    std::size_t matrices() const override { return recording_.shapes.size(); }
    MatrixShape shape(std::uint32_t matrix) const override { return recording_.shapes.at(matrix); }
    Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> y) override;

private:
    const Recording recording_;
};

}  // namespace imka
