#include "imka/data/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/sha256.hpp"
#include "imka/data/registry_io.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {
namespace embedded {
extern const std::string_view dataset_manifest;
extern const std::string_view letter_split;
}  // namespace embedded

namespace {

// Row numbers first, ..., first + count - 1.
std::vector<std::uint32_t> row_range(std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    return rows;
}

Table take_rows(const Table& table, std::span<const std::uint32_t> rows) {
    Table out{.x = Matrix<float>(rows.size(), table.x.cols()), .labels = {}};
    out.labels.reserve(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::ranges::copy(table.x.row(rows[r]), out.x.row(r).begin());
        out.labels.push_back(table.labels[rows[r]]);
    }
    return out;
}

// Columns 1..10 of ijcnn1 one-hot encode the phase; the published runs use its number, 1..10, as one feature.
void merge_phase(Table& table) {
    constexpr std::size_t kPhases = 10;
    const std::size_t rest = table.x.cols() - kPhases;
    Matrix<float> merged(table.x.rows(), 1 + rest);
    for (std::size_t r = 0; r < merged.rows(); ++r) {
        const auto from = table.x.row(r);
        std::size_t phase = 0;
        while (phase + 1 < kPhases && from[phase] != 1.0F) ++phase;
        merged(r, 0) = static_cast<float>(phase + 1);
        std::ranges::copy(from.subspan(kPhases), merged.row(r).begin() + 1);
    }
    table.x = std::move(merged);
}

Arrangement arrange_ijcnn1(std::vector<Table> tables, const ArrangeOptions& options) {
    auto a = arrange_pair(std::move(tables[0]), std::move(tables[1]));
    if (options.protocol == Protocol::measured) {
        // The training file is ijcnn1.tr followed by ijcnn1.val, and the published runs test on val and t.
        constexpr std::size_t kTrain = 35000;
        const std::size_t file_end = a.split.train.size();
        merge_phase(a.table);
        a.split = {.train = row_range(0, kTrain), .test = row_range(kTrain, a.table.x.rows() - kTrain)};
        a.stretch_ends = {kTrain, file_end, a.table.x.rows()};
    }
    return a;
}

Arrangement arrange_cod_rna(std::vector<Table> tables, const ArrangeOptions&) {
    return arrange_pair(std::move(tables[0]), std::move(tables[1]));
}

Arrangement arrange_letter(std::vector<Table> tables, const ArrangeOptions& options) {
    constexpr std::size_t kTrain = 12000;
    const auto bytes = embedded::letter_split;
    std::vector<std::uint32_t> rows(bytes.size() / 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] =
            static_cast<unsigned char>(bytes[2 * i]) + 256U * static_cast<unsigned char>(bytes[2 * i + 1]);
    }
    const std::span all(rows);
    auto a = arrange_pair(take_rows(tables[0], all.first(kTrain)), take_rows(tables[0], all.subspan(kTrain)));
    if (options.protocol == Protocol::measured) {
        for (auto& label : a.table.labels) label = label <= "M" ? "A-M" : "N-Z";
        a.classes = {"N-Z", "A-M"};
    }
    return a;
}

Arrangement arrange_eeg(std::vector<Table> tables, const ArrangeOptions& options) {
    return arrange_halves(std::move(tables[0]), options);
}

Arrangement arrange_magic(std::vector<Table> tables, const ArrangeOptions& options) {
    auto a = arrange_halves(std::move(tables[0]), options);
    if (options.protocol == Protocol::measured) a.classes = {"h", "g"};
    return a;
}

Arrangement arrange_skin(std::vector<Table> tables, const ArrangeOptions& options) {
    if (options.protocol == Protocol::default_) return arrange_halves(std::move(tables[0]), options);
    // The published runs read a truncated file.
    constexpr std::size_t kRows = 175393;
    auto& table = tables[0];
    table.x.resize_rows(kRows);
    table.labels.resize(kRows);
    auto a = arrange_halves(std::move(table), options);
    a.classes = {"2", "1"};
    return a;
}

struct Recipe {
    std::string_view name;
    Arrangement (*arrange)(std::vector<Table> tables, const ArrangeOptions& options);
};
constexpr std::array kRecipes = {
    Recipe{"cod-rna", arrange_cod_rna}, Recipe{"eeg", arrange_eeg},     Recipe{"ijcnn1", arrange_ijcnn1},
    Recipe{"letter", arrange_letter},   Recipe{"magic", arrange_magic}, Recipe{"skin", arrange_skin},
};

const Recipe* find_recipe(const RegisteredSet& set) {
    const auto it =
        std::find_if(kRecipes.begin(), kRecipes.end(), [&](const Recipe& r) { return r.name == set.name; });
    return it == kRecipes.end() ? nullptr : &*it;
}

constexpr std::array<std::string_view, 5> kPackedEndings = {"", ".xz", ".gz", ".bz2", ".zst"};

}  // namespace

const std::vector<RegisteredSet>& registered_sets() {
    static const auto sets = parse_manifest(embedded::dataset_manifest, "datasets/manifest.yaml");
    return sets;
}

const RegisteredSet* find_set(std::string_view name) {
    const auto& sets = registered_sets();
    const auto it = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.name == name; });
    return it == sets.end() ? nullptr : &*it;
}

std::optional<std::filesystem::path> find_compressed(const std::filesystem::path& path) {
    for (const auto ending : kPackedEndings) {
        auto candidate = path;
        candidate += ending;
        std::error_code ignored;
        if (std::filesystem::is_regular_file(candidate, ignored)) return candidate;
    }
    return std::nullopt;
}

std::optional<std::filesystem::path> find_source(const RegisteredSet& set, const SourceFile& file,
                                                 const std::filesystem::path& data_dir) {
    if (data_dir.empty()) return std::nullopt;
    for (const auto& name : file.names) {
        if (auto path = find_compressed(data_dir / set.folder / name)) return path;
    }
    return std::nullopt;
}

SourceCheck check_source(const std::filesystem::path& path, const SourceFile& file) {
    SourceCheck check;
    try {
        ByteStream stream(path, {});
        Sha256 hash;
        std::vector<char> block(std::size_t{1} << 20U);
        while (const auto n = stream.read(block)) {
            hash.update(std::string_view(block.data(), n));
            check.bytes += n;
        }
        check.raw_sha256 = hash.hex();
        check.table_sha256 = table_sha256(read_table(path, file.read));
        check.right = check.table_sha256 == file.table_sha256;
        if (!check.right) {
            check.problem =
                fmt::format("the table has sha256 {}; expected {}", check.table_sha256, file.table_sha256);
        }
    } catch (const Error& e) {
        check.problem = e.what();
    }
    return check;
}

Table read_known_table(const std::filesystem::path& path, const SourceFile& file) {
    auto table = read_table(path, file.read);
    const auto hash = table_sha256(table);
    if (hash != file.table_sha256) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: not the expected table: {} rows with sha256 {}; expected {} rows with {}",
                         path.string(), table.x.rows(), hash, file.rows, file.table_sha256));
    }
    return table;
}

std::vector<Table> read_tables(const RegisteredSet& set, const std::filesystem::path& data_dir,
                               const Exec& exec) {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : set.files) {
        const auto path = find_source(set, file, data_dir);
        if (!path) {
            const auto where = data_dir.empty() ? std::string("no data directory is set")
                                                : fmt::format("no file {} in {}", file.names.front(),
                                                              (data_dir / set.folder).string());
            fail(ErrorCode::missing_part,
                 fmt::format("data set {}: {}; run 'imka data fetch {}' or set --data-dir", set.name, where,
                             set.name));
        }
        paths.push_back(*path);
    }
    std::vector<Table> tables(paths.size());
    parallel_for(exec, paths.size(),
                 [&](std::size_t i) { tables[i] = read_known_table(paths[i], set.files[i]); });
    return tables;
}

bool has_recipe(const RegisteredSet& set) {
    return find_recipe(set) != nullptr;
}

Arrangement arrange(const RegisteredSet& set, std::vector<Table> tables, const ArrangeOptions& options) {
    const auto* recipe = find_recipe(set);
    assert(recipe != nullptr && tables.size() == set.files.size());
    return recipe->arrange(std::move(tables), options);
}

Arrangement arrange_pair(Table train, Table test) {
    assert(train.x.cols() == test.x.cols());
    const std::size_t rows = train.x.rows();
    Arrangement a{.table = std::move(train),
                  .split = {.train = row_range(0, rows), .test = row_range(rows, test.x.rows())},
                  .stretch_ends = {rows, rows + test.x.rows()},
                  .classes = {}};
    a.table.x.resize_rows(rows + test.x.rows());
    std::ranges::copy(test.x.values(),
                      a.table.x.values().begin() + static_cast<std::ptrdiff_t>(rows * test.x.cols()));
    std::ranges::move(test.labels, std::back_inserter(a.table.labels));
    return a;
}

Arrangement arrange_halves(Table table, const ArrangeOptions& options) {
    const std::size_t rows = table.x.rows();
    return {.table = std::move(table),
            .split = random_halves(rows, options.split_seed),
            .stretch_ends = {rows},
            .classes = {}};
}

}  // namespace imka
