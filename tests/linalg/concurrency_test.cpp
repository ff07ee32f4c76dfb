// Concurrent products and factorisations give the same bits as alone. A BLAS build without working locks
// fails here (docs/adr/0003-blas.md).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/linalg/factor.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

template <class T>
Matrix<T> filled(std::size_t rows, std::size_t cols) {
    Matrix<T> a(rows, cols);
    for (std::size_t i = 0; i < a.values().size(); ++i) a.values()[i] = normal(1, Stream::test, i);
    return a;
}

using Work = std::function<std::vector<double>()>;

template <class T>
std::vector<double> values_of(const Matrix<T>& m) {
    return {m.values().begin(), m.values().end()};
}

Work float_product(std::size_t m, std::size_t k) {
    return [a = filled<float>(kTileRows, k), b = filled<float>(m, k)] {
        Matrix<float> c(a.rows(), b.rows());
        gemm_nt(a.view(), b.view(), c.view());
        return values_of(c);
    };
}

Work transposed_product(std::size_t rows, std::size_t cols) {
    return [a = filled<float>(rows, cols)] {
        Matrix<float> c(a.cols(), a.cols());
        gemm_tn(a.view(), a.view(), c.view());
        return values_of(c);
    };
}

Work solution(std::size_t n) {
    return [n] {
        Matrix<double> a(n, n);
        Matrix<double> b(n, 1);
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j < n; ++j)
                a(i, j) = 1.0 / (1.0 + static_cast<double>(i > j ? i - j : j - i));
            a(i, i) += 2.0;
            b(i, 0) = static_cast<double>(i);
        }
        solve_positive_definite(a.view(), b.view(), "the test system", Exec{.threads = 1});
        return values_of(b);
    };
}

Work orthogonal(std::size_t n) {
    return [a = filled<double>(n, n)] {
        auto q = a;
        orthonormalize_rows(q.view(), QrSigns::positive_diagonal);
        return values_of(q);
    };
}

TEST(Linalg, CallsFromManyThreadsGiveTheBitsTheyGiveAlone) {
    const std::vector<Work> work = {float_product(104, 13),
                                    float_product(416, 13),
                                    transposed_product(512, 106),
                                    transposed_product(184, 106),
                                    transposed_product(512, 128),
                                    solution(105),
                                    solution(417),
                                    orthogonal(13),
                                    orthogonal(13),
                                    orthogonal(64)};
    std::vector<std::vector<double>> alone;
    for (const auto& w : work) alone.push_back(w());
    std::vector<std::atomic<int>> wrong(work.size());
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                for (std::uint64_t i = 0; i < 3000; ++i) {
                    const auto k = uniform_int(t, Stream::test, i, work.size());
                    if (work[k]() != alone[k]) ++wrong[k];
                }
            });
        }
    }
    for (std::size_t k = 0; k < work.size(); ++k) EXPECT_EQ(wrong[k], 0) << "work " << k;
}

// Leaves address space for one buffer of OpenBLAS, but not for two.
void limit_address_space() {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{190} << 20U);
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(3);
}

[[noreturn]] void work_with_one_buffer() {
    constexpr int kThreads = 4;
    const auto work = orthogonal(64);
    std::barrier started(kThreads, [] { limit_address_space(); });
    std::atomic<int> done{0};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&] {
                // The first allocation reserves address space for the thread. Not a vector: compilers remove
                // it.
                void* volatile first = std::malloc(1);
                std::free(first);
                started.arrive_and_wait();
                for (int i = 0; i < 100; ++i) done += static_cast<int>(!work().empty());
            });
        }
    }
    std::_Exit(done == kThreads * 100 ? 0 : 1);
}

TEST(LinalgDeathTest, ThreadsShareABufferIfThereIsNoSpaceForMore) {
    if (!std::string(IMKA_SANITIZE).empty()) GTEST_SKIP() << "sanitizers need more address space";
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has no buffers yet
    // Without OpenBLAS's own threads: each maps a buffer when it starts, which may be after the limit is set.
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    EXPECT_EXIT(work_with_one_buffer(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace imka
