// The data sets that imka knows: where they come from, what their tables must be, and how each protocol makes
// training and test part of them. The facts stand in datasets/manifest.yaml, which is compiled in.
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
    std::string label;  // canonical text
    std::uint64_t rows = 0;
};

struct SourceFile {
    std::vector<std::string> names;  // accepted names, without the ending of a compression
    std::string url;                 // as published
    ReadOptions read;
    std::uint64_t bytes = 0;   // after decompression, of the copy that was checked
    std::string raw_sha256;    // of these bytes; other public copies may differ
    std::string table_sha256;  // of the parsed table; decides
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
    std::string folder;         // below the data directory
    bool random_split = false;  // halves are drawn from the split seed
    std::string page;
    std::string licence;
    std::string citation;
    ProtocolSizes default_sizes;
    ProtocolSizes measured_sizes;
    std::vector<SourceFile> files;
};

const std::vector<RegisteredSet>& registered_sets();
const RegisteredSet* find_set(std::string_view name);  // nullptr when there is none

// The file under the first of its names that exists, plain or compressed.
std::optional<std::filesystem::path> find_source(const RegisteredSet& set, const SourceFile& file,
                                                 const std::filesystem::path& data_dir);

// Reads a table and checks that it is the known one; Error{bad_data} with both hashes otherwise.
Table read_known_table(const std::filesystem::path& path, const SourceFile& file);

// What a file is against what it should be.
struct SourceCheck {
    std::uint64_t bytes = 0;   // after decompression
    std::string raw_sha256;    // of these bytes; empty when the file cannot be decompressed
    std::string table_sha256;  // empty when the file cannot be read as a table
    bool right = false;        // the table is the known one
    std::string problem;       // why not
};
SourceCheck check_source(const std::filesystem::path& path, const SourceFile& file);

// All tables of a set; Error{missing_part} that says how to get what is not there.
std::vector<Table> read_tables(const RegisteredSet& set, const std::filesystem::path& data_dir,
                               const Exec& exec);

// Rows of a problem before standardisation, and what belongs to which part.
struct Arrangement {
    Table table;
    Split split;
    // Ends of the stretches of rows that the protocol measured standardises each by its own statistics.
    std::vector<std::size_t> stretch_ends;
    std::vector<std::string> classes;  // their order; empty: sorted
};

struct ArrangeOptions {
    Protocol protocol = Protocol::default_;
    std::uint64_t split_seed = 0;
};

// How the set's tables become a problem. Every set of the manifest has a recipe for it.
bool has_recipe(const RegisteredSet& set);
Arrangement arrange(const RegisteredSet& set, std::vector<Table> tables, const ArrangeOptions& options);

// Two tables of equally many columns as training and test part; one table split at random in halves.
Arrangement arrange_pair(Table train, Table test);
Arrangement arrange_halves(Table table, const ArrangeOptions& options);

}  // namespace imka
