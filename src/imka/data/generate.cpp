#include "imka/data/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/parallel.hpp"
#include "imka/io/disk_space.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

constexpr std::uint64_t kBlockRows = 2048;
constexpr std::uint64_t kBatchBlocks = 32;  // generated in parallel, then written in order

struct Block {
    Matrix<float> x;
    std::vector<double> labels;  // classes from 1, or numbers to predict
    std::string text;
};

void append_libsvm(const Block& block, std::size_t r, std::string& text) {
    fmt::format_to(std::back_inserter(text), "{}", block.labels[r]);
    const auto row = block.x.row(r);
    for (std::size_t c = 0; c < row.size(); ++c) {
        text += ' ';
        text += std::to_string(c + 1);
        text += ':';
        append_number(text, row[c]);
    }
    text += '\n';
}

void append_csv(const Block& block, std::size_t r, std::string& text) {
    for (const float v : block.x.row(r)) {
        append_number(text, v);
        text += ',';
    }
    fmt::format_to(std::back_inserter(text), "{}\n", block.labels[r]);
}

void fill_block(const GenerateOptions& o, std::uint64_t first, Block& block) {
    if (generator_info(o.generator).classes == 0)
        return generate_targets(o.generator, o.seed, first, block.x.view(), block.labels);
    std::vector<std::int32_t> y(block.labels.size());
    generate_rows(o.generator, o.seed, first, block.x.view(), y);
    std::ranges::transform(y, block.labels.begin(), [](std::int32_t c) { return c + 1.0; });
}

Block make_block(const GenerateOptions& o, std::uint64_t first, std::uint64_t rows, Format format) {
    Block block{.x = Matrix<float>(rows, generator_info(o.generator).features),
                .labels = std::vector<double>(rows),
                .text = {}};
    fill_block(o, first, block);
    for (std::size_t r = 0; r < rows && format != Format::npy; ++r) {
        if (format == Format::csv) {
            append_csv(block, r, block.text);
        } else {
            append_libsvm(block, r, block.text);
        }
    }
    return block;
}

// Calls write(block) for all rows in order.
template <class Write>
void for_blocks(const GenerateOptions& o, Format format, const Exec& exec, const Write& write) {
    Progress progress(exec, fmt::format("generate {}", to_string(o.generator)), o.rows);
    for (std::uint64_t first = 0; first < o.rows; first += kBatchBlocks * kBlockRows) {
        const std::uint64_t left = std::min(o.rows - first, kBatchBlocks * kBlockRows);
        std::vector<Block> blocks((left + kBlockRows - 1) / kBlockRows);
        parallel_for(exec, blocks.size(), [&](std::size_t b) {
            const std::uint64_t begin = b * kBlockRows;
            blocks[b] = make_block(o, first + begin, std::min(kBlockRows, left - begin), format);
        });
        for (const auto& block : blocks) write(block);
        progress.update(first + left);
    }
}

void write_npy_pair(const GenerateOptions& o, const Exec& exec) {
    NpyWriter values(o.output, generator_info(o.generator).features);
    NpyWriter labels(labels_beside(o.output), 1);
    for_blocks(o, Format::npy, exec, [&](const Block& block) {
        values.append(block.x.view());
        Matrix<float> y(block.labels.size(), 1);
        std::ranges::transform(block.labels, y.values().begin(),
                               [](double label) { return static_cast<float>(label); });
        labels.append(y.view());
    });
    labels.commit();
    values.commit();
}

// Rows of text have almost the same length, so the first ones give the size of the file.
double estimated_bytes(const GenerateOptions& o, Format format) {
    const auto rows = static_cast<double>(o.rows);
    if (format == Format::npy)
        return rows * static_cast<double>((generator_info(o.generator).features + 1) * sizeof(float));
    const auto sample = std::min<std::uint64_t>(o.rows, kBlockRows);
    return static_cast<double>(make_block(o, 0, sample, format).text.size()) / static_cast<double>(sample) *
           rows;
}

std::string csv_head(std::uint32_t features) {
    std::string head;
    for (std::uint32_t c = 0; c < features; ++c) head += fmt::format("f{},", c);
    return head + "label\n";
}

}  // namespace

Format output_format(const std::filesystem::path& path) {
    const auto format = format_of(path);
    const auto ending = path.extension().string();
    if (!format || *format == Format::arff || ending == ".xz" || ending == ".gz" || ending == ".bz2" ||
        ending == ".zst") {
        fail(ErrorCode::bad_usage,
             fmt::format("{}: unsupported output format; the name must end in .libsvm, .csv or .npy",
                         path.string()));
    }
    return *format;
}

std::filesystem::path labels_beside(const std::filesystem::path& path) {
    auto beside = path;
    return beside.replace_extension(".labels.npy");
}

Fields fields(GenerateOptions& o) {
    return {field("rows", o.rows, range::between(1, 1e15, "Number of rows to write")),
            field("seed", o.seed, {.help = "Seed for the generator"})};
}

void generate_file(const GenerateOptions& options, const Exec& exec) {
    auto copy = options;
    check_ranges(fields(copy));
    const auto format = output_format(options.output);
    check_disk_space(options.output, estimated_bytes(options, format));
    if (format == Format::npy) return write_npy_pair(options, exec);
    AtomicFile file(options.output);
    if (format == Format::csv) file.write(csv_head(generator_info(options.generator).features));
    for_blocks(options, format, exec, [&](const Block& block) { file.write(block.text); });
    file.commit();
}

}  // namespace imka
