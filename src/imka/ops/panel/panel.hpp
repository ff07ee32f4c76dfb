// Products of matrices. Right factors are stored in panels of columns; with results in panels, one layout
// serves as left factor, as right factor and as result.
//
// Domain: any float; NaN and infinities propagate. Accuracy: every result is a chain of fused
// multiply-additions over k in increasing order, in float, so |error| <= k 2^-24 sum |a b|; with results in
// rows, chains of at most 448 are added up. The bits of a result depend only on its row, its column and
// whether the processor has fused multiply-adds: not on the other rows or columns, nor on the width of
// vectors. Cost: about the throughput of the multiply-add units. In the widest vectors of the processor,
// selected at run time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "imka/base/matrix.hpp"

namespace imka::ops {

// Columns per panel: two vectors of the selected instruction set.
std::size_t panel_width();

// A rows x cols matrix as panels of width() columns; each panel is row-major. Columns are padded to a
// multiple of the width.
class Panels {
public:
    Panels() = default;
    Panels(std::size_t rows, std::size_t cols) { reshape(rows, cols); }
    // Keeps the memory. The values are unspecified, also in the padding.
    void reshape(std::size_t rows, std::size_t cols);

    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    std::size_t width() const { return width_; }
    std::size_t panels() const { return (cols_ + width_ - 1) / width_; }
    // Panel p, rows() x width().
    float* panel(std::size_t p) { return values_.data() + p * rows_ * width_; }
    const float* panel(std::size_t p) const { return values_.data() + p * rows_ * width_; }
    float& operator()(std::size_t r, std::size_t c) { return panel(c / width_)[r * width_ + c % width_]; }
    float operator()(std::size_t r, std::size_t c) const {
        return panel(c / width_)[r * width_ + c % width_];
    }

private:
    std::size_t rows_ = 0;
    std::size_t cols_ = 0;
    std::size_t width_ = 1;
    std::vector<float, AlignedAllocator<float>> values_;
};

// Writes scale × b to the first panels of out, which has as many rows; padding becomes 0. keep: rows with 0
// here become 0, whatever b holds there; empty: all are kept.
void pack(MatrixView<const float> b, float scale, std::span<const unsigned char> keep, Panels& out);
// Writes scale × bᵀ to the first rows of out, which has as many panels. keep: the same for rows of b.
void pack_transposed(MatrixView<const float> b, float scale, std::span<const unsigned char> keep,
                     Panels& out);

// Panels of b, in the memory of out.
void repack(MatrixView<const float> b, Panels& out);
// Panels of b and of bᵀ.
Panels packed(MatrixView<const float> b);
Panels packed_transposed(MatrixView<const float> b);

// c = a b in the first a.rows() rows and first b.panels() panels of c, which may be larger. a is n x k, b is
// k x m; its padding must be 0, and c gets zeros there. The left factor is read once per panel of b.
void multiply(MatrixView<const float> a, const Panels& b, Panels& c);
void multiply(const Panels& a, const Panels& b, Panels& c);

// c = a b for any sizes; a is n x k, b is k x m, c is n x m.
void multiply(MatrixView<const float> a, const Panels& b, MatrixView<float> c);
// c = aᵀ b; a is k x n. If b has more than a few panels, a is faster in panels.
void multiply_transposed(MatrixView<const float> a, const Panels& b, MatrixView<float> c);
void multiply_transposed(const Panels& a, const Panels& b, MatrixView<float> c);
// The upper triangle of c = aᵀ a; some values below it are also written.
void multiply_transposed_upper(const Panels& a, MatrixView<float> c);

}  // namespace imka::ops
