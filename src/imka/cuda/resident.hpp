// Rows on the host with a copy in the memory of a GPU, because many computations read them.
#pragma once

#include <cstddef>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"

namespace imka::cuda {

class ResidentRows {
public:
    // Copies the matrices, whose rows have no gaps and must stay as they are. Error{missing_part} without the
    // GPU or its memory.
    ResidentRows(const std::vector<MatrixView<const float>>& matrices, int gpu);

    // Where the rows are, if they are rows of one of the matrices; otherwise nullptr. Thread-safe.
    const float* find(MatrixView<const float> rows, int gpu) const;

private:
    struct Part {
        MatrixView<const float> host;
        Buffer<float> copy;
    };
    int gpu_;
    std::vector<Part> parts_;
};

// The place of rows in memory of exec.device; nullptr if they are not there.
const float* find_resident(const Exec& exec, MatrixView<const float> rows);

// Where `view` begins within `whole`, in values, if it consists of rows of it; otherwise -1.
std::ptrdiff_t offset_within(MatrixView<const float> whole, MatrixView<const float> view);

}  // namespace imka::cuda
