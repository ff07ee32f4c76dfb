// The registered data sets: sources, expected tables, and training and test parts in each protocol. Built
// from datasets/manifest.yaml, which is compiled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/data/dataset.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/data/split.hpp"
#include "imka/data/table.hpp"

namespace imka {

struct ClassCount {
    std::string label;  // in canonical form
    std::uint64_t rows = 0;
};

struct SourceFile {
    std::vector<std::string> names;  // accepted names, without a compression suffix
    std::string url;                 // as published
    ReadOptions read;
    std::uint64_t bytes = 0;   // of the reference copy, after decompression
    std::string raw_sha256;    // of these bytes; other public copies may differ
    std::string table_sha256;  // of the parsed table; must match
    std::uint64_t rows = 0;
    std::vector<ClassCount> classes;
};

struct ProtocolSizes {
    std::uint32_t features = 0;
    std::uint64_t train = 0;
    std::uint64_t test = 0;
};

struct RegisteredSet {
    std::string name;
    std::string title;
    std::string description;
    std::string folder;         // in the data directory
    bool random_split = false;  // halves are drawn with the split seed
    std::string page;
    std::string licence;
    std::string citation;
    ProtocolSizes default_sizes;
    ProtocolSizes measured_sizes;
    std::vector<SourceFile> files;
};

const std::vector<RegisteredSet>& registered_sets();
const RegisteredSet* find_set(std::string_view name);  // nullptr if unknown

// `path` itself, or with the ending of a compressed file; the first that exists.
std::optional<std::filesystem::path> find_compressed(const std::filesystem::path& path);

// The first of the accepted names that exists, plain or compressed.
std::optional<std::filesystem::path> find_source(const RegisteredSet& set, const SourceFile& file,
                                                 const std::filesystem::path& data_dir);

// Reads a table and checks its hash; Error{bad_data} with both hashes on a mismatch.
Table read_known_table(const std::filesystem::path& path, const SourceFile& file);

// A file compared with the manifest.
struct SourceCheck {
    std::uint64_t bytes = 0;   // after decompression
    std::string raw_sha256;    // of these bytes; empty if the file cannot be decompressed
    std::string table_sha256;  // empty if the file cannot be read as a table
    bool right = false;        // the table is the expected one
    std::string problem;       // why not
};
SourceCheck check_source(const std::filesystem::path& path, const SourceFile& file);

// All tables of a set. If a file is missing, Error{missing_part} says how to get it.
std::vector<Table> read_tables(const RegisteredSet& set, const std::filesystem::path& data_dir,
                               const Exec& exec);

// Rows of a problem before standardisation, and their split into parts.
struct Arrangement {
    Table table;
    Split split;
    // Ends of the row ranges that the protocol measured standardises separately.
    std::vector<std::size_t> stretch_ends;
    std::vector<std::string> classes;  // their order; empty: sorted
};

struct ArrangeOptions {
    Protocol protocol = Protocol::default_;
    std::uint64_t split_seed = 0;
};

// Turns the tables of a set into a problem. Every set in the manifest has a recipe.
bool has_recipe(const RegisteredSet& set);
Arrangement arrange(const RegisteredSet& set, std::vector<Table> tables, const ArrangeOptions& options);

// Two tables with the same columns as training and test part; one table split into random halves.
Arrangement arrange_pair(Table train, Table test);
Arrangement arrange_halves(Table table, const ArrangeOptions& options);

}  // namespace imka
