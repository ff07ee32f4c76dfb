#include "imka/cuda/linear_algebra.hpp"

#include <fmt/format.h>

#include <map>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"

#if IMKA_HAVE_CUBLAS
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <dlfcn.h>
#endif

namespace imka::cuda {

#if IMKA_HAVE_CUBLAS
namespace {

// Looks for a shared library by name, then in the folder of the toolkit of the build.
void* open_library(const std::string& name) {
    if (void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    return dlopen((std::string(IMKA_CUDA_LIBRARIES) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

// The type of cublasGemmEx, written out because the function has an overload.
using Gemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                                const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

// The functions in use.
struct Functions {
    std::string obstacle;
    decltype(&::cublasCreate_v2) create_blas = nullptr;
    decltype(&::cublasDestroy_v2) destroy_blas = nullptr;
    decltype(&::cublasSetStream_v2) set_blas_stream = nullptr;
    Gemm gemm = nullptr;
    decltype(&::cusolverDnCreate) create_solver = nullptr;
    decltype(&::cusolverDnDestroy) destroy_solver = nullptr;
    decltype(&::cusolverDnSetStream) set_solver_stream = nullptr;
    decltype(&::cusolverDnDpotrf_bufferSize) factor_size = nullptr;
    decltype(&::cusolverDnDpotrf) factor = nullptr;
    decltype(&::cusolverDnDpotrs) solve = nullptr;
};

class Loader {
public:
    explicit Loader(Functions& functions) : functions_(functions) {}
    void open(const std::string& name) {
        library_ = open_library(name);
        if (library_ != nullptr) return;
        const char* reason = dlerror();
        missing(fmt::format("{} ({})", name, reason == nullptr ? "not found" : reason));
    }
    template <class F>
    void find(const char* name, F& function) {
        if (library_ == nullptr) return;
        function = reinterpret_cast<F>(dlsym(library_, name));
        if (function == nullptr) missing(name);
    }

private:
    void missing(const std::string& what) {
        if (functions_.obstacle.empty())
            functions_.obstacle =
                fmt::format("cannot load {}; install cuBLAS and cuSOLVER of CUDA {}", what, build().runtime);
    }
    Functions& functions_;
    void* library_ = nullptr;
};

Functions load_functions() {
    Functions f;
    Loader loader(f);
    loader.open(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR));
    loader.find("cublasCreate_v2", f.create_blas);
    loader.find("cublasDestroy_v2", f.destroy_blas);
    loader.find("cublasSetStream_v2", f.set_blas_stream);
    loader.find("cublasGemmEx", f.gemm);
    loader.open(fmt::format("libcusolver.so.{}", CUSOLVER_VER_MAJOR));
    loader.find("cusolverDnCreate", f.create_solver);
    loader.find("cusolverDnDestroy", f.destroy_solver);
    loader.find("cusolverDnSetStream", f.set_solver_stream);
    loader.find("cusolverDnDpotrf_bufferSize", f.factor_size);
    loader.find("cusolverDnDpotrf", f.factor);
    loader.find("cusolverDnDpotrs", f.solve);
    return f;
}

// Never unloaded.
const Functions& functions() {
    static const Functions loaded = load_functions();
    return loaded;
}

// The libraries have their own CUDA runtime: only a call to this one shows whether the GPU still works.
void check_gpu(std::string_view what) {
    check(cudaStreamSynchronize(cudaStreamPerThread), what);
}

void check_blas(cublasStatus_t status, std::string_view what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    check_gpu(what);
    fail(ErrorCode::missing_part,
         fmt::format("{} failed: cuBLAS error {}; {}", what, static_cast<int>(status),
                     status == CUBLAS_STATUS_ALLOC_FAILED ? "free GPU memory or use smaller batches"
                                                          : "use the device cpu"));
}

void check_solver(cusolverStatus_t status, std::string_view what) {
    if (status == CUSOLVER_STATUS_SUCCESS) return;
    check_gpu(what);
    fail(ErrorCode::missing_part,
         fmt::format("{} failed: cuSOLVER error {}; use the device cpu", what, static_cast<int>(status)));
}

// A kind of product.
struct Kind {
    cudaDataType_t type;
    cublasComputeType_t sums;
};

}  // namespace

std::string linear_algebra_obstacle() {
    return functions().obstacle;
}

struct LinearAlgebra::Handles {
    int gpu = 0;
    cublasHandle_t blas = nullptr;
    cusolverDnHandle_t solver = nullptr;
    ~Handles() {
        if (solver != nullptr) functions().destroy_solver(solver);
        if (blas != nullptr) functions().destroy_blas(blas);
    }
    template <class T>
    void multiply(const Product<T>& w, const Kind& kind) const {
        const T one = 1;
        const T zero = 0;
        check_blas(functions().gemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, static_cast<int>(w.rows),
                                    static_cast<int>(w.cols), static_cast<int>(w.inner), &one, w.a, kind.type,
                                    static_cast<int>(w.a_stride), w.b, kind.type,
                                    static_cast<int>(w.b_stride), &zero, w.c, kind.type,
                                    static_cast<int>(w.c_stride), kind.sums, CUBLAS_GEMM_DEFAULT),
                   "a matrix product on the GPU");
    }
};

LinearAlgebra::LinearAlgebra(int gpu) : handles_(std::make_unique<Handles>()) {
    handles_->gpu = gpu;
    if (!functions().obstacle.empty()) fail(ErrorCode::missing_part, functions().obstacle);
    select_gpu(gpu);
    check_blas(functions().create_blas(&handles_->blas), "starting cuBLAS");
    check_blas(functions().set_blas_stream(handles_->blas, cudaStreamPerThread), "starting cuBLAS");
    check_solver(functions().create_solver(&handles_->solver), "starting cuSOLVER");
    check_solver(functions().set_solver_stream(handles_->solver, cudaStreamPerThread), "starting cuSOLVER");
}

LinearAlgebra::~LinearAlgebra() = default;

void LinearAlgebra::multiply_tf32(const Product<float>& work) {
    handles_->multiply(work, {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32});
}

void LinearAlgebra::multiply(const Product<float>& work) {
    handles_->multiply(work, {CUDA_R_32F, CUBLAS_COMPUTE_32F});
}

void LinearAlgebra::multiply(const Product<double>& work) {
    handles_->multiply(work, {CUDA_R_64F, CUBLAS_COMPUTE_64F});
}

std::size_t LinearAlgebra::solve(double* a, std::size_t n, double* b, std::size_t columns) {
    const auto& f = functions();
    const auto size = static_cast<int>(n);
    int workspace = 0;
    check_solver(f.factor_size(handles_->solver, CUBLAS_FILL_MODE_LOWER, size, a, size, &workspace),
                 "preparing a factorisation");
    const Buffer<double> work(handles_->gpu, static_cast<std::size_t>(workspace), MemorySource::pooled);
    const Buffer<int> info(handles_->gpu, 1, MemorySource::pooled);
    int pivot = 0;
    check_solver(f.factor(handles_->solver, CUBLAS_FILL_MODE_LOWER, size, a, size, work.data(), workspace,
                          info.data()),
                 "a factorisation on the GPU");
    info.download({&pivot, 1});
    if (pivot != 0) return static_cast<std::size_t>(pivot);
    check_solver(f.solve(handles_->solver, CUBLAS_FILL_MODE_LOWER, size, static_cast<int>(columns), a, size,
                         b, size, info.data()),
                 "solving a system on the GPU");
    wait();
    return 0;
}
#else
std::string linear_algebra_obstacle() {
    return is_compiled() ? "imka was built without cuBLAS and cuSOLVER; install them and rebuild"
                         : "this imka was built without CUDA";
}

struct LinearAlgebra::Handles {};

LinearAlgebra::LinearAlgebra(int gpu) {
    require_gpu(gpu);
    fail(ErrorCode::missing_part, linear_algebra_obstacle());
}

LinearAlgebra::~LinearAlgebra() = default;
void LinearAlgebra::multiply_tf32(const Product<float>&) {}
void LinearAlgebra::multiply(const Product<float>&) {}
void LinearAlgebra::multiply(const Product<double>&) {}
std::size_t LinearAlgebra::solve(double*, std::size_t, double*, std::size_t) {
    return 0;
}
#endif

LinearAlgebra& LinearAlgebra::of_this_thread(int gpu) {
    thread_local std::map<int, std::unique_ptr<LinearAlgebra>> kept;
    auto& own = kept[gpu];
    if (own == nullptr) own = std::make_unique<LinearAlgebra>(gpu);
    return *own;
}

}  // namespace imka::cuda
