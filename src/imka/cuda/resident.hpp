// Host rows that many computations read, with a copy in the memory of a GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"

namespace imka::cuda {

class ResidentRows {
public:
    // Copies the matrices. Their rows have no gaps and must not change. Error{missing_part} without the GPU
    // or its memory.
    ResidentRows(const std::vector<MatrixView<const float>>& matrices, int gpu);

    // The copy of the rows if they belong to one of the matrices; otherwise nullptr. Thread-safe.
    const float* find(MatrixView<const float> rows, int gpu) const;

private:
    struct Part {
        MatrixView<const float> host;
        Buffer<float> copy;
    };
    int gpu_;
    std::vector<Part> parts_;
};

// The copy of the rows in memory of exec.device; nullptr if there is none.
const float* find_resident(const Exec& exec, MatrixView<const float> rows);

// Offset of `view` within `whole`, in values, if it consists of rows of `whole`; otherwise -1.
std::ptrdiff_t offset_within(MatrixView<const float> whole, MatrixView<const float> view);

}  // namespace imka::cuda
