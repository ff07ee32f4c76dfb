// Products and factorisations by cuBLAS and cuSOLVER. Both are loaded when first needed, so that a program
// runs without them. Matrices are column-major, in memory of the GPU. Work is in the order of the calling
// thread's stream.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "imka/cuda/memory.hpp"

namespace imka::cuda {

// The reason why the libraries cannot be used, and what to do; empty if they can.
std::string linear_algebra_obstacle();

// c = a bᵀ, c is rows x cols.
template <class T>
struct Product {
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::size_t inner = 0;
    const T* a = nullptr;  // rows x inner
    std::size_t a_stride = 0;
    const T* b = nullptr;  // cols x inner
    std::size_t b_stride = 0;
    T* c = nullptr;
    std::size_t c_stride = 0;
};

// Handles of one thread and GPU. Error{missing_part} if there is an obstacle.
class LinearAlgebra {
public:
    // Kept until the thread ends: creating one takes longer than most runs of a sweep.
    static LinearAlgebra& of_this_thread(int gpu);

    explicit LinearAlgebra(int gpu);
    ~LinearAlgebra();
    LinearAlgebra(const LinearAlgebra&) = delete;
    LinearAlgebra& operator=(const LinearAlgebra&) = delete;

    // In TF32: factors have 11 bits, sums are floats.
    void multiply_tf32(const Product<float>& work);
    void multiply(const Product<float>& work);
    void multiply(const Product<double>& work);

    // Solves a x = b for a symmetric positive definite n x n matrix, whose lower triangle is read and
    // overwritten; b is n x columns and becomes x. Waits. Returns the first pivot that is not positive,
    // counted from 1, or 0.
    std::size_t solve(double* a, std::size_t n, double* b, std::size_t columns);

private:
    struct Handles;
    std::unique_ptr<Handles> handles_;
};

}  // namespace imka::cuda
