// Runs one hot operation on a fixed size to count its instructions under callgrind (scripts/check callgrind).
// Only the function `counted` is counted, not the preparation.
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "imka/attention/attention.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/learn/ridge.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/epilogue/epilogue.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/normals/normals.hpp"
#include "imka/ops/readout/applied.hpp"
#include "imka/ops/readout/readout.hpp"
#include "imka/ops/readout/row_sums.hpp"

namespace {

using imka::Matrix;

// One thread, because the assignment of tiles to threads would change the counts slightly.
const imka::Exec kExec{.threads = 1};

Matrix<float> gaussian(std::size_t rows, std::size_t cols) {
    Matrix<float> x(rows, cols);
    imka::ops::fill_normal(1, imka::Stream::test, 0, x.values());
    return x;
}

imka::OmegaRecipe recipe(imka::Sampler sampler, std::int64_t d, std::int64_t m) {
    return {.gamma = 0.02, .sampler = sampler, .d = d, .m = m, .seed = 1};
}

using Body = std::function<void()>;

Body cos_sin() {
    return [u = gaussian(1, 65536), out = Matrix<float>(2, 65536)]() mutable {
        imka::ops::cos_sin(u.row(0), 0.5F, out.row(0), out.row(1));
    };
}

Body normals() {
    return [out = std::vector<float>(65536)]() mutable {
        imka::ops::fill_normal(1, imka::Stream::test, 0, out);
    };
}

Body fwht() {
    return [x = gaussian(128, 512)]() mutable {
        for (std::size_t r = 0; r < x.rows(); ++r) imka::fwht(x.row(r));
    };
}

Body projection() {
    return [projector = imka::DigitalProjector(gaussian(704, 22)), x = gaussian(imka::kTileRows, 22),
            u = Matrix<float>(imka::kTileRows, 704)]() mutable {
        projector.project(std::as_const(x).view(), {}, kExec, u.view());
    };
}

Body sorf_projection() {
    return [projector = imka::SorfProjector(recipe(imka::Sampler::sorf, 128, 512)),
            x = gaussian(imka::kTileRows, 128), u = Matrix<float>(imka::kTileRows, 512)]() mutable {
        projector.project(std::as_const(x).view(), {}, kExec, u.view());
    };
}

Body feature_tile() {
    return [map = std::make_shared<imka::FeatureMap>(
                imka::FeatureRecipe{.omega = recipe(imka::Sampler::rff, 22, 704)}),
            x = gaussian(imka::kTileRows, 22), z = Matrix<float>(imka::kTileRows, 1408)]() mutable {
        map->transform(std::as_const(x).view(), {}, kExec, z.view());
    };
}

Body ridge_tile() {
    constexpr std::size_t kRows = imka::RidgeAccumulator::kRowsPerTile;
    return [sums = imka::RidgeAccumulator(256, 1), rows = gaussian(kRows, 256 + 1 + 1)]() mutable {
        sums.add(std::as_const(rows).view(), kExec);
    };
}

// Rows of a core: inputs to steps, charges to counts with rounding and saturation, counts to 8-bit outputs.
Body readout() {
    constexpr std::size_t kRows = 64;
    constexpr std::size_t kCols = 256;
    const auto ones = [] { return std::vector<float>(kCols, 1.0F); };
    return [x = gaussian(kRows, kCols), charge = gaussian(kRows, kCols), normals = gaussian(kRows, kCols),
            ones = ones(), steps = Matrix<float>(kRows, kCols), counts = Matrix<float>(kRows, kCols),
            out = Matrix<float>(kRows, kCols)]() mutable {
        const imka::ops::Counter counter{
            .rounding = imka::ops::CountRounding::floor, .most = 423.0F, .noise_variance = 0.25F};
        const imka::ops::AffineRow affine{
            .scale = ones, .offset = ones, .factor = ones, .half = true, .most = 127.0F};
        for (std::size_t r = 0; r < kRows; ++r) {
            const imka::ops::ChargeRow in{
                .charge = charge.row(r), .variance = ones, .offset = ones, .normals = normals.row(r)};
            imka::ops::quantize_row({.range = 4.0, .levels = 127}, x.row(r), steps.row(r));
            imka::ops::add_counts(counter, in, counts.row(r));
            imka::ops::add_signed_counts(counter, in, ones, counts.row(r));
            imka::ops::affine_row(affine, counts.row(r), out.row(r));
        }
    };
}

// Calibration of a core: inputs as they are applied, sums of rows of weights.
Body calibration() {
    constexpr std::size_t kRows = 64;
    constexpr std::size_t kCols = 256;
    std::vector<std::uint32_t> rows(kCols);
    std::iota(rows.begin(), rows.end(), 0U);
    return
        [x = gaussian(kRows, kCols), weights = gaussian(kCols, kCols), applied = Matrix<float>(kRows, kCols),
         rows, factors = std::vector<double>(kCols, 0.5), sums = std::vector<double>(kCols)]() mutable {
            for (std::size_t r = 0; r < kRows; ++r)
                imka::ops::apply_row({.range = 4.0, .levels = 127}, x.row(r), applied.row(r));
            imka::ops::row_sums(rows, factors, weights.view(), sums);
        };
}

// Two blocks of queries and keys of one head.
Body attention() {
    const imka::AttentionConfig config{.n_directions = 64};
    return
        [attention = std::make_shared<imka::KernelAttention>(config, gaussian(64, 32)), q = gaussian(256, 32),
         k = gaussian(256, 32), v = gaussian(256, 32), out = Matrix<float>(256, 32)]() mutable {
            const auto head = [](const Matrix<float>& x) { return imka::HeadsView<const float>(x.view()); };
            attention->run({head(q), head(k), head(v)}, {}, kExec, imka::HeadsView<float>(out.view()));
        };
}

const std::map<std::string, Body (*)()> kOps = {{"attention", attention},
                                                {"calibration", calibration},
                                                {"cos_sin", cos_sin},
                                                {"normals", normals},
                                                {"fwht", fwht},
                                                {"projection", projection},
                                                {"readout", readout},
                                                {"ridge_tile", ridge_tile},
                                                {"feature_tile", feature_tile},
                                                {"sorf_projection", sorf_projection}};

}  // namespace

// --toggle-collect needs this name.
extern "C" __attribute__((noinline)) void counted(const Body& body) {
    body();
}

int main(int argc, char** argv) {
    if (argc != 2 || !kOps.contains(argv[1])) {
        for (const auto& [name, op] : kOps) std::puts(name.c_str());
        return argc == 1 ? 0 : 2;
    }
    const auto body = kOps.at(argv[1])();
    body();  // warm-up: instruction set selection and first use of memory are not counted
    counted(body);
    return 0;
}
