# Optional: operations on NVIDIA GPUs. Sets IMKA_HAVE_CUDA; without it the library has the same interface, and a
# request for a GPU fails with Error{missing_part}.
set(IMKA_HAVE_CUDA 0)
set(IMKA_HAVE_CUBLAS 0)
if(NOT IMKA_CUDA STREQUAL "OFF")
    # nvcc is often installed outside the path.
    find_program(IMKA_NVCC NAMES nvcc PATHS /usr/local/cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin)
    if(IMKA_NVCC)
        set(CMAKE_CUDA_COMPILER ${IMKA_NVCC})
        # Hopper has instructions that its code alone may use (90a); later GPUs get the code without them.
        set(CMAKE_CUDA_ARCHITECTURES ${IMKA_CUDA_ARCHITECTURES})
        list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90$" "90a-real;90-virtual")
        enable_language(CUDA)
        # CMake 3.25 does not know the flag of nvcc for C++20.
        if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
            set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
            set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
        endif()
        set(CMAKE_CUDA_STANDARD 20)
        find_package(CUDAToolkit REQUIRED)
        set(IMKA_HAVE_CUDA 1)
        # Headers only: the libraries are loaded when they are needed.
        find_path(IMKA_CUBLAS_INCLUDE cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        find_path(IMKA_CUSOLVER_INCLUDE cusolverDn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        if(IMKA_CUBLAS_INCLUDE AND IMKA_CUSOLVER_INCLUDE)
            set(IMKA_HAVE_CUBLAS 1)
        else()
            message(STATUS "ridge fits on GPUs add up on the processor: the headers of cuBLAS and cuSOLVER were not found")
        endif()
        message(STATUS "imka with CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${IMKA_CUDA_ARCHITECTURES}")
    elseif(IMKA_CUDA STREQUAL "ON")
        message(FATAL_ERROR "imka needs nvcc for IMKA_CUDA=ON. Install the CUDA toolkit (12.4 or later) or set "
                            "CUDA_PATH to its folder; IMKA_CUDA=AUTO does without")
    else()
        message(STATUS "imka without CUDA: nvcc was not found in the path or in /usr/local/cuda/bin")
    endif()
endif()
