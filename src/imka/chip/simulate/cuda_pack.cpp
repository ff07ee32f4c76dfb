#include "imka/chip/simulate/cuda_pack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

namespace imka {
namespace {

constexpr std::size_t kMostRows = 512;  // beyond, sums of digits would not fit 32 bits
constexpr double kLargestFixed = 127 * 65536 + 127 * 256 + 127;
constexpr int kVarianceExponent = 14;  // variances of a column are scaled to less than 2^14

constexpr std::uint32_t kPieceBytes = 128;                               // 8 columns x 16 bytes
constexpr std::uint32_t kVarianceBytes = kGpuPanelCols * kGpuStepBlock;  // of 16 inputs

// Columns are distributed over tiles of 8 so that a thread gets four neighbours: 4 q and 4 q + 1 in one tile,
// 4 q + 2 and 4 q + 3 in the next.
struct TileColumn {
    std::uint32_t tile;
    std::uint32_t col;
};
TileColumn tile_column(std::uint32_t col) {
    return {.tile = col / 16 * 2 + col / 2 % 2, .col = col % 16 / 4 * 2 + col % 2};
}

// `byte`: one of the 32 bytes that an instruction multiplies.
BlockPlace place_of(std::uint32_t first, std::uint32_t tile, std::uint32_t col, std::uint32_t byte) {
    const std::uint32_t at = first + (tile * 2 + byte / 16) * kPieceBytes + col * 16 + byte % 16;
    return {.word = at / 4, .shift = at % 4 * 8};
}

// Bits of a number >= 0, rounded to half precision.
std::uint32_t half_bits(double v) {
    const double rounded = ops::to_half(v);
    if (rounded < 0x1p-14) return static_cast<std::uint32_t>(std::ldexp(rounded, 24));
    int exponent = 0;
    const double fraction = std::frexp(rounded, &exponent);  // in [1/2, 1)
    return (static_cast<std::uint32_t>(exponent + 14) << 10U) +
           (static_cast<std::uint32_t>(std::ldexp(fraction, 11)) - 1024U);
}

// Columns of a region in one panel.
struct Columns {
    std::size_t first;
    std::size_t count;
};

struct ColumnShifts {
    std::vector<int> weights;
    std::vector<int> variances;
};

float largest_in(const FastFold& fold, Matrix<float> FastCharge::*part, std::size_t col) {
    float most = 0.0F;
    for (const auto& charge : fold.charges) {
        if ((charge.*part).rows() == 0) continue;
        for (const float v : (charge.*part).row(col)) most = std::max(most, std::abs(v));
    }
    return most;
}

ColumnShifts shifts_of(const FastFold& fold, const Columns& columns) {
    ColumnShifts out;
    for (std::size_t c = columns.first; c < columns.first + columns.count; ++c) {
        const float weight = largest_in(fold, &FastCharge::counts, c);
        const float variance = largest_in(fold, &FastCharge::variance, c);
        out.weights.push_back(weight > 0.0F ? fixed_point_shift(weight) : 0);
        out.variances.push_back(variance > 0.0F ? kVarianceExponent - 1 - std::ilogb(variance) : 0);
    }
    return out;
}

void put_weight(float weight, int shift, std::pair<std::uint32_t, std::uint32_t> place,
                std::span<std::uint32_t> block) {
    auto rest = std::llround(std::ldexp(double{weight}, shift));
    for (std::uint32_t digit = 0; digit < 3; ++digit) {
        const auto value = ((rest + 128) & 255) - 128;
        const auto at = digit_place(place.first, place.second, digit);
        block[at.word] |= static_cast<std::uint32_t>(value & 255) << at.shift;
        rest = (rest - value) / 256;
    }
}

// Inputs of a charge that belong to one pass: all, or one half of a split panel.
struct Inputs {
    std::size_t first;
    std::size_t count;
};

// Appends the blocks of one matrix.
void put_matrix(const FastCharge& charge, const Inputs& inputs, const Columns& columns,
                const ColumnShifts& shifts, std::vector<std::uint32_t>& words) {
    const std::size_t blocks = (inputs.count + kGpuStepBlock - 1) / kGpuStepBlock;
    const std::size_t begin = words.size();
    words.resize(begin + blocks * kGpuBlockWords, 0U);
    for (std::size_t c = 0; c < columns.count; ++c) {
        for (std::size_t i = 0; i < inputs.count; ++i) {
            const auto out =
                std::span(words).subspan(begin + i / kGpuStepBlock * kGpuBlockWords, kGpuBlockWords);
            const auto row = static_cast<std::uint32_t>(i % kGpuStepBlock);
            const auto col = static_cast<std::uint32_t>(c);
            put_weight(charge.counts(columns.first + c, inputs.first + i), shifts.weights[c], {row, col},
                       out);
            if (charge.variance.rows() == 0) continue;
            const double v = charge.variance(columns.first + c, inputs.first + i);
            const auto at = variance_place(row, col);
            out[at.word] |= half_bits(std::ldexp(v, shifts.variances[c])) << at.shift;
        }
    }
}

bool same_matrix(const FastCharge& a, const FastCharge& b) {
    return std::ranges::equal(a.counts.values(), b.counts.values()) &&
           std::ranges::equal(a.variance.values(), b.variance.values());
}

// Appends an array of kGpuPanelCols floats: the given ones, then `rest`.
void put_columns(std::span<const float> values, float rest, std::vector<float>& out) {
    out.insert(out.end(), values.begin(), values.end());
    out.insert(out.end(), kGpuPanelCols - values.size(), rest);
}

std::vector<float> powers(const std::vector<int>& shifts) {
    std::vector<float> out(shifts.size());
    std::ranges::transform(shifts, out.begin(), [](int shift) { return std::ldexp(1.0F, -shift); });
    return out;
}

void put_fold_columns(const FastFold& fold, const Columns& columns, const ColumnShifts& shifts,
                      std::vector<float>& out) {
    put_columns(powers(shifts.weights), 0.0F, out);
    put_columns(powers(shifts.variances), 0.0F, out);
    put_columns(std::span(fold.offset).subspan(columns.first, columns.count), 0.0F, out);
    const auto& gain = fold.negative_gain;
    put_columns(
        gain.empty() ? std::span<const float>() : std::span(gain).subspan(columns.first, columns.count), 1.0F,
        out);
}

// Products of one part of the steps; a charge is converted after its last pass.
struct Pass {
    StepPart part = StepPart::whole;
    std::size_t weights = 0;  // first word
    bool converts = true;
    float sign = 1.0F;
};

// Passes of a fold; appends their matrices. Charges with equal matrices share one copy: phases of negative
// inputs use the same devices as phases of positive inputs.
std::vector<Pass> put_passes(const FastFold& fold, const Columns& columns,
                             std::vector<std::uint32_t>& words) {
    const auto shifts = shifts_of(fold, columns);
    std::vector<Pass> passes;
    std::vector<std::size_t> first_word;
    for (std::size_t k = 0; k < fold.charges.size(); ++k) {
        const auto& charge = fold.charges[k];
        if (charge.panel == InputPanel::split) {
            const std::size_t rows = charge.counts.cols() / 2;
            first_word.push_back(words.size());
            for (const std::size_t half : {0U, 1U}) {
                passes.push_back({.part = half == 0 ? StepPart::positive : StepPart::negative,
                                  .weights = words.size(),
                                  .converts = half == 1,
                                  .sign = charge.sign});
                put_matrix(charge, {half * rows, rows}, columns, shifts, words);
            }
            continue;
        }
        const auto same = static_cast<std::size_t>(
            std::ranges::find_if(fold.charges, [&](const FastCharge& c) { return same_matrix(c, charge); }) -
            fold.charges.begin());
        first_word.push_back(same < k ? first_word[same] : words.size());
        Pass pass{.weights = first_word[k], .sign = charge.sign};
        if (charge.panel == InputPanel::positive) pass.part = StepPart::positive;
        if (charge.panel == InputPanel::negative) pass.part = StepPart::negative;
        passes.push_back(pass);
        if (same == k) put_matrix(charge, {0, charge.counts.cols()}, columns, shifts, words);
    }
    return passes;
}

GpuFold pack_fold(const FastFold& fold, const Columns& columns, GpuImage& image) {
    GpuFold out;
    if (fold.charges.empty()) return out;
    out.exists = 1;
    out.either_sign = fold.either_sign ? 1 : 0;
    out.gains = fold.negative_gain.empty() ? 0 : 1;
    out.rounding = static_cast<std::uint32_t>(fold.counter.rounding);
    out.most = fold.counter.most;
    out.noise_variance = fold.counter.noise_variance;
    out.polarity_error = fold.counter.polarity_error;
    out.noisy = fold.counter.noise_variance > 0.0F || fold.charges.front().variance.rows() > 0 ? 1 : 0;
    out.columns = static_cast<std::uint32_t>(image.columns.size());
    put_fold_columns(fold, columns, shifts_of(fold, columns), image.columns);
    return out;
}

// Appends the stages of a fold: per pass, and per bit of the inputs if bits are applied one by one.
void add_stages(const FastRegion& f, const FastFold& fold, const Columns& columns, GpuStage stage,
                GpuMatrix& matrix, GpuImage& image) {
    if (fold.charges.empty()) return;
    const auto passes = put_passes(fold, columns, image.weights);
    const auto& plane = matrix.planes.at(matrix.terms.at(stage.term).plane);
    const auto blocks = plane.blocks;
    stage.region_blocks = blocks;
    stage.blocks_before = plane.blocks_before;
    const auto slices = fold.bit_by_bit ? static_cast<std::int32_t>(input_slices(f.region.spec.dac)) : 1;
    for (std::int32_t slice = 0; slice < slices; ++slice) {
        stage.bit = fold.bit_by_bit ? slice : -1;
        for (const auto& pass : passes) {
            stage.part = pass.part;
            stage.weight = pass.sign;
            if (fold.bit_by_bit)
                stage.weight *= static_cast<float>(1U << static_cast<std::uint32_t>(slice)) /
                                static_cast<float>(f.region.spec.dac.levels);
            for (std::uint32_t b = 0; b < blocks; b += kGpuStageBlocks) {
                stage.weights = pass.weights + std::size_t{b} * kGpuBlockWords;
                stage.first_block = b;
                stage.blocks = std::min(kGpuStageBlocks, blocks - b);
                stage.converts = pass.converts && b + stage.blocks == blocks ? 1 : 0;
                matrix.stages.push_back(stage);
            }
            if (pass.converts) ++stage.conversion;
        }
    }
}

GpuTerm pack_term(const FastRegion& f, const Columns& columns, float factor, GpuImage& image) {
    const auto affine = affine_row(f);
    GpuTerm term{
        .linear = pack_fold(f.linear, columns, image),
        .exact = pack_fold(f.exact, columns, image),
        .converter = static_cast<std::uint32_t>(first_column(f.region.spec, f.region.ids) + columns.first),
        .factor = factor,
        .output_floor = f.region.spec.adc.output_floor ? 1U : 0U,
        .half = affine.half ? 1U : 0U,
        .limits = affine.limit.empty() ? 0U : (affine.soft_limit ? 2U : 1U),
        .rounds_down = affine.floor ? 1U : 0U,
        .most = affine.most,
        .columns = static_cast<std::uint32_t>(image.columns.size())};
    const auto part = [&](std::span<const float> all) { return all.subspan(columns.first, columns.count); };
    put_columns(part(affine.scale), 0.0F, image.columns);
    put_columns(part(affine.offset), 0.0F, image.columns);
    put_columns(part(affine.factor), 0.0F, image.columns);
    put_columns(affine.limit.empty() ? affine.limit : part(affine.limit),
                std::numeric_limits<float>::infinity(), image.columns);
    return term;
}

// The largest float that is not beyond the range.
float largest_inside(double range) {
    const auto limit = static_cast<float>(range);
    return limit > range ? std::nextafter(limit, 0.0F) : limit;
}

// The plane of a region: a new one, or an existing plane of the same copy with the same steps.
std::uint32_t plane_of(const FastRegion& f, const Tile& tile, std::uint32_t copy, GpuMatrix& matrix,
                       GpuImage& image) {
    const auto scale = step_scale(f);
    GpuPlane plane{.copy = copy,
                   .first_row = static_cast<std::uint32_t>(tile.first_row),
                   .rows = static_cast<std::uint32_t>(tile.rows),
                   .blocks = static_cast<std::uint32_t>((tile.rows + kGpuStepBlock - 1) / kGpuStepBlock),
                   .levels = scale.levels,
                   .nearest = scale.rounding == ops::StepRounding::nearest ? 1U : 0U,
                   .range = scale.range,
                   .largest = largest_inside(scale.range)};
    const bool has_margin = !f.linear.charges.empty() && f.margin.need > 0.0;
    if (has_margin) {
        plane.need = f.margin.need;
        plane.first_spread = static_cast<std::uint32_t>(image.spreads.size());
        plane.spreads = static_cast<std::uint32_t>(f.margin.columns.size());
        for (const auto& c : f.margin.columns) {
            image.spreads.push_back(c.mean);
            image.spreads.push_back(c.deviation);
        }
    } else {
        const auto same = std::ranges::find_if(matrix.planes, [&](const GpuPlane& p) {
            return p.spreads == 0 && p.copy == copy && p.first_row == plane.first_row &&
                   p.rows == plane.rows && p.range == plane.range;
        });
        if (same != matrix.planes.end()) {
            ++same->regions;
            return static_cast<std::uint32_t>(same - matrix.planes.begin());
        }
    }
    if (!matrix.planes.empty())
        plane.blocks_before = matrix.planes.back().blocks_before + matrix.planes.back().blocks;
    matrix.planes.push_back(plane);
    return static_cast<std::uint32_t>(matrix.planes.size() - 1);
}

// Regions to add up, in this order, and their factor in the sum.
struct Sum {
    std::uint32_t copy = 0;
    float factor = 1.0F;
    std::vector<std::size_t> regions;
};

// Cuts the outputs at the borders of regions, then into panels.
void add_panels(const ChipLayout& layout, const std::vector<FastRegion>& folded, const Sum& sum,
                GpuMatrix& matrix, GpuImage& image) {
    std::set<std::size_t> cuts;
    std::vector<std::uint32_t> planes;
    for (const auto r : sum.regions) {
        const auto& tile = layout.regions[r].tile;
        for (std::size_t c = 0; c < tile.cols; c += kGpuPanelCols) cuts.insert(tile.first_col + c);
        cuts.insert(tile.first_col + tile.cols);
        planes.push_back(plane_of(folded[r], tile, sum.copy, matrix, image));
    }
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        const std::size_t first = *cut;
        GpuPanel panel{.copy = sum.copy,
                       .first_col = static_cast<std::uint32_t>(first),
                       .cols = static_cast<std::uint32_t>(*std::next(cut) - first),
                       .first_stage = static_cast<std::uint32_t>(matrix.stages.size())};
        for (std::size_t i = 0; i < sum.regions.size(); ++i) {
            const auto& tile = layout.regions[sum.regions[i]].tile;
            if (first < tile.first_col || first >= tile.first_col + tile.cols) continue;
            const auto& f = folded[sum.regions[i]];
            const Columns columns{first - tile.first_col, panel.cols};
            const auto term = static_cast<std::uint32_t>(matrix.terms.size());
            matrix.terms.push_back(pack_term(f, columns, sum.factor, image));
            matrix.terms.back().plane = planes[i];
            add_stages(f, f.linear, columns, {.term = term}, matrix, image);
            add_stages(f, f.exact, columns, {.term = term, .exact = 1}, matrix, image);
        }
        panel.stages = static_cast<std::uint32_t>(matrix.stages.size()) - panel.first_stage;
        matrix.panels.push_back(panel);
    }
}

const GpuFold& first_fold(const GpuTerm& term) {
    return term.linear.exists != 0 ? term.linear : term.exact;
}

bool is_usual(const GpuTerm& t) {
    const auto& fold = first_fold(t);
    const bool one_fold = t.linear.exists == 0 || t.exact.exists == 0;
    const bool counts = fold.noisy != 0 && fold.gains == 0 && fold.polarity_error == 0.0F &&
                        fold.rounding == static_cast<std::uint32_t>(ops::CountRounding::floor);
    const bool results = t.half != 0 && t.limits < 2 && t.rounds_down != 0 && t.output_floor == 0 &&
                         t.most < std::numeric_limits<float>::infinity();
    return one_fold && counts && results && t.converter % 4 == 0;
}

GpuKind kind_of(const GpuMatrix& matrix) {
    const auto sign = first_fold(matrix.terms.front()).either_sign;
    const bool usual = std::ranges::all_of(
        matrix.terms, [&](const GpuTerm& t) { return is_usual(t) && first_fold(t).either_sign == sign; });
    if (!usual || std::ranges::any_of(matrix.stages, [](const GpuStage& s) { return s.bit >= 0; }))
        return GpuKind::general;
    return sign != 0 ? GpuKind::usual_signed : GpuKind::usual_unsigned;
}

GpuMatrix pack_matrix(const ChipLayout& layout, const MatrixCopies& copies,
                      const std::vector<FastRegion>& folded, GpuImage& image) {
    GpuMatrix matrix;
    if (copies.replication == Replication::average) {
        Sum all{.factor = 1.0F / static_cast<float>(copies.regions.size())};
        for (const auto& regions : copies.regions)
            all.regions.insert(all.regions.end(), regions.begin(), regions.end());
        add_panels(layout, folded, all, matrix, image);
        matrix.kind = kind_of(matrix);
        return matrix;
    }
    matrix.copies = static_cast<std::uint32_t>(copies.regions.size());
    for (std::uint32_t c = 0; c < matrix.copies; ++c)
        add_panels(layout, folded, {.copy = c, .regions = copies.regions[c]}, matrix, image);
    matrix.kind = kind_of(matrix);
    return matrix;
}

}  // namespace

int fixed_point_shift(float largest) {
    const int shift = 22 - std::ilogb(largest);
    return std::ldexp(double{largest}, shift) + 0.5 > kLargestFixed ? shift - 1 : shift;
}

BlockPlace digit_place(std::uint32_t input, std::uint32_t col, std::uint32_t digit) {
    const auto t = tile_column(col);
    return place_of(0, digit * (kGpuPanelCols / 8) + t.tile, t.col, input);
}

// A thread squares its own steps, those of four neighbouring inputs: instructions for halves take the first
// two in their first 16 bytes, the other two in their last 16 bytes.
BlockPlace variance_place(std::uint32_t input, std::uint32_t col) {
    const auto t = tile_column(col);
    const std::uint32_t half = input % 16 / 4 * 2 + input % 2;
    return place_of((3 + input / 16) * kVarianceBytes, t.tile, t.col, input % 4 / 2 * 16 + half * 2);
}

std::string gpu_obstacle(const FastRegion& f) {
    const auto& spec = f.region.spec;
    if (spec.dac.jitter_steps > 0.0) return "input jitter";
    if (f.draws_devices) return "read noise with inputs that are applied bit by bit";
    if (spec.dac.levels > 127) return "more than 127 input levels";
    if (f.region.rows() > kMostRows) return "regions of more than 512 inputs";
    const auto drops = [](const FastFold& fold) {
        return !fold.charges.empty() && fold.charges.front().weighted.rows() > 0;
    };
    return drops(f.exact) || drops(f.linear) ? "IR drop" : "";
}

GpuImage pack(const ChipLayout& layout, const std::vector<FastRegion>& regions) {
    GpuImage image;
    for (const auto& copies : layout.matrices)
        image.matrices.push_back(pack_matrix(layout, copies, regions, image));
    return image;
}

}  // namespace imka
