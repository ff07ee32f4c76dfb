#include "imka/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/data/generate.hpp"
#include "imka/data/registry.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/data/table.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

// More classes suggest a wrong label column or a regression target.
constexpr std::size_t kMostClasses = 1000;

// By value if all are numbers, otherwise as text.
std::vector<std::string> sorted_classes(const std::set<std::string>& labels) {
    std::vector<std::string> classes(labels.begin(), labels.end());
    const auto value = [](const std::string& text) { return parse_double(text); };
    if (std::all_of(classes.begin(), classes.end(), [&](const auto& c) { return value(c).has_value(); })) {
        std::stable_sort(classes.begin(), classes.end(),
                         [&](const auto& a, const auto& b) { return *value(a) < *value(b); });
    }
    return classes;
}

// Fractions among the labels suggest a regression target.
std::string target_hint(std::span<const std::string> classes) {
    const auto fraction = [](const std::string& label) {
        const auto value = parse_double(label);
        return value && std::trunc(*value) != *value;
    };
    return std::ranges::any_of(classes, fraction)
               ? fmt::format("; the labels look like numbers to predict (regression), not like {} classes",
                             classes.size())
               : "";
}

std::vector<std::string> classes_of(const Table& table, const std::string& name) {
    if (table.labels.size() != table.x.rows() || table.x.rows() == 0)
        fail(ErrorCode::bad_data, fmt::format("{}: no labelled rows", name));
    std::set<std::string> labels;
    for (const auto& label : table.labels) {
        labels.insert(label);
        if (labels.size() > kMostClasses) {
            fail(ErrorCode::bad_data,
                 fmt::format(
                     "{}: more than {} different labels, such as {}; check the label column, or set the "
                     "task to regression if they are numbers",
                     name, kMostClasses, in_quotes(label)));
        }
    }
    if (labels.size() < 2) {
        fail(ErrorCode::bad_data, fmt::format("{}: all rows have the class {}; expected at least two classes",
                                              name, in_quotes(*labels.begin())));
    }
    return sorted_classes(labels);
}

// `numbers`: numbers of the classes; empty for regression.
Part take_part(const Table& table, std::span<const std::uint32_t> rows,
               const std::map<std::string, std::int32_t>& numbers) {
    Part part{.x = Matrix<float>(rows.size(), table.x.cols()), .y = {}};
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::ranges::copy(table.x.row(rows[r]), part.x.row(r).begin());
        const auto& label = table.labels[rows[r]];
        if (numbers.empty()) {
            part.target.push_back(parse_double(label).value());
        } else {
            part.y.push_back(numbers.at(label));
        }
    }
    return part;
}

// Labels of a file for regression.
void check_targets(const Table& table, const std::filesystem::path& path) {
    if (table.labels.empty()) fail(ErrorCode::bad_data, fmt::format("{}: no labelled rows", path.string()));
    for (std::size_t r = 0; r < table.labels.size(); ++r) {
        float value = 0.0F;
        const auto fault = parse_float(table.labels[r], value);
        if (fault != NumberFault::none)
            fail(ErrorCode::bad_data, fmt::format("{}: row {}: the label {}; regression needs numbers",
                                                  path.string(), r + 1, describe(fault, table.labels[r])));
    }
}

void check_task(std::string_view name, Task has, Task wanted) {
    if (has == wanted) return;
    fail(ErrorCode::bad_usage,
         has == Task::regression
             ? fmt::format("{} has numbers as labels; task classification needs classes", name)
             : fmt::format("{} has classes; task regression needs numbers as labels", name));
}

void check_generator_task(Generator g, Task wanted) {
    check_task(to_string(g), generator_info(g).classes > 0 ? Task::classification : Task::regression, wanted);
}

void check_test_classes(const Dataset& data) {
    std::vector<bool> seen(data.classes.size());
    for (const auto y : data.train.y) seen[static_cast<std::size_t>(y)] = true;
    for (const auto y : data.test.y) {
        const auto c = static_cast<std::size_t>(y);
        if (!seen[c]) {
            fail(ErrorCode::bad_data,
                 fmt::format("{}: the test part has the class {}, which is missing from the training part{}",
                             data.name, in_quotes(data.classes[c]), target_hint(data.classes)));
        }
    }
}

// measured: standardises each range of rows separately, before the split.
void standardize_stretches(Arrangement& a, const Exec& exec) {
    std::size_t first = 0;
    for (const std::size_t end : a.stretch_ends) {
        const auto rows = a.table.x.view().slice_rows(first, end - first);
        apply_standardization(compute_standardization(rows, exec), exec, rows);
        first = end;
    }
}

Dataset finish(Arrangement a, const std::string& name, const LoadOptions& options, const Exec& exec) {
    Dataset data;
    data.name = name;
    if (options.task == Task::classification) data.classes = classes_of(a.table, name);
    if (!a.classes.empty()) data.classes = a.classes;
    const bool measured = options.protocol == Protocol::measured;
    if (options.standardize && measured) standardize_stretches(a, exec);
    std::map<std::string, std::int32_t> numbers;
    for (const auto& c : data.classes) numbers.emplace(c, static_cast<std::int32_t>(numbers.size()));
    data.train = take_part(a.table, a.split.train, numbers);
    data.test = take_part(a.table, a.split.test, numbers);
    check_test_classes(data);
    if (options.standardize && !measured) {
        data.standardization = compute_standardization(data.train.x.view(), exec);
        apply_standardization(*data.standardization, exec, data.train.x.view());
        apply_standardization(*data.standardization, exec, data.test.x.view());
    }
    return data;
}

std::string hash_of(std::span<const std::string> hashes) {
    if (hashes.size() == 1) return hashes[0];
    std::string text;
    for (const auto& h : hashes) text += h + "\n";
    return sha256_hex(text);
}

std::string source_hash(const RegisteredSet& set) {
    std::vector<std::string> hashes;
    for (const auto& file : set.files) hashes.push_back(file.table_sha256);
    return hash_of(hashes);
}

Dataset load_registered(const RegisteredSet& set, const LoadOptions& options, const Exec& exec) {
    check_task(set.name, Task::classification, options.task);
    auto tables = read_tables(set, options.data_dir, exec);
    auto data = finish(
        arrange(set, std::move(tables), {.protocol = options.protocol, .split_seed = options.split_seed}),
        set.name, options, exec);
    data.source_sha256 = source_hash(set);
    return data;
}

DatasetFacts registered_facts(const RegisteredSet& set, Protocol protocol) {
    const bool measured = protocol == Protocol::measured;
    const auto& sizes = measured ? set.measured_sizes : set.default_sizes;
    std::set<std::string> labels;
    for (const auto& file : set.files) {
        for (const auto& c : file.classes) labels.insert(c.label);
    }
    return {.source_sha256 = source_hash(set),
            .features = sizes.features,
            .train_rows = sizes.train,
            .test_rows = sizes.test,
            // All measured problems have two classes.
            .classes = measured ? 2 : labels.size(),
            .uses_split_seed = set.random_split};
}

DatasetFacts generated_facts(Generator g, const LoadOptions& options) {
    const auto& info = generator_info(g);
    check_generator_task(g, options.task);
    return {.source_sha256 = generator_sha256(g),
            .features = info.features,
            .train_rows = options.train_rows > 0 ? options.train_rows : info.train_rows,
            .test_rows = options.test_rows > 0 ? options.test_rows : info.test_rows,
            .classes = static_cast<std::uint64_t>(info.classes),
            .uses_split_seed = true};
}

// The training rows come first, then the test rows.
Dataset load_generated(Generator g, const LoadOptions& options, const Exec& exec) {
    const auto& info = generator_info(g);
    check_generator_task(g, options.task);
    const std::uint64_t train = options.train_rows > 0 ? options.train_rows : info.train_rows;
    const std::uint64_t test = options.test_rows > 0 ? options.test_rows : info.test_rows;
    check_fits_memory(static_cast<double>(train) + static_cast<double>(test), info.features, sizeof(float),
                      to_string(g));
    const auto make = [&](std::uint64_t first, std::uint64_t rows) {
        Part part{.x = Matrix<float>(rows, info.features), .y = {}};
        if (info.classes > 0) {
            part.y.resize(rows);
            generate_rows(g, options.split_seed, first, part.x.view(), part.y);
        } else {
            part.target.resize(rows);
            generate_targets(g, options.split_seed, first, part.x.view(), part.target);
        }
        return part;
    };
    Dataset data;
    data.name = to_string(g);
    data.train = make(0, train);
    data.test = make(train, test);
    for (int c = 1; c <= info.classes; ++c) data.classes.push_back(std::to_string(c));
    data.source_sha256 = generator_sha256(g);
    data.bayes_error = info.bayes_error;
    data.noise = info.noise;
    data.best_r2 = info.best_r2;
    check_test_classes(data);
    if (!options.standardize) return data;
    const auto s = compute_standardization(data.train.x.view(), exec);
    apply_standardization(s, exec, data.train.x.view());
    if (options.protocol == Protocol::measured) {
        apply_standardization(compute_standardization(data.test.x.view(), exec), exec, data.test.x.view());
    } else {
        apply_standardization(s, exec, data.test.x.view());
        data.standardization = s;
    }
    return data;
}

// The labels of x.npy are in x.labels.npy, as `imka data export` writes them.
void add_labels_beside(const std::filesystem::path& path, const ReadOptions& read, Table& table) {
    const auto beside = labels_beside(path);
    if (!std::filesystem::is_regular_file(beside)) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: no labels; expected them in {}{}", path.string(), beside.string(),
                         read.advise ? " or in the column set with --label-column" : ""));
    }
    const auto labels = read_npy(beside);
    if (labels.rows() != table.x.rows() || labels.cols() != 1) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: has {} x {} values; expected one label for each of the {} rows",
                         beside.string(), labels.rows(), labels.cols(), table.x.rows()));
    }
    for (const float v : labels.values()) {
        std::string text;
        append_number(text, v);
        table.labels.push_back(canonical_label(text));
    }
}

std::optional<Format> format_for(const std::filesystem::path& path, const ReadOptions& read) {
    return read.format ? read.format : format_of(path);
}

// The label is the last column, unless the options choose another column or the labels of x.npy are in
// x.labels.npy.
Table read_labelled(const std::filesystem::path& path, ReadOptions read, const Exec& exec) {
    const bool npy = format_for(path, read) == Format::npy;
    if (read.label_column.empty()) {
        read.label_column = npy ? "none" : "last";
        if (!npy && format_for(path, read) != Format::libsvm)
            note(exec, fmt::format("{}: the label is the last column", path.string()));
    }
    auto table = read_table(path, read, exec);
    if (table.labels.empty() && npy) add_labels_beside(path, read, table);
    return table;
}

// Missing::mean: missing values become the mean of their column in the training part.
void fill_missing(const std::string& name, const Exec& exec, Arrangement& a) {
    std::uint64_t filled = 0;
    for (std::size_t c = 0; c < a.table.x.cols(); ++c) {
        double sum = 0.0;
        double count = 0.0;
        for (const auto r : a.split.train) {
            if (std::isnan(a.table.x(r, c))) continue;
            sum += a.table.x(r, c);
            count += 1.0;
        }
        for (std::size_t r = 0; r < a.table.x.rows(); ++r) {
            if (!std::isnan(a.table.x(r, c))) continue;
            if (count == 0.0) {
                fail(ErrorCode::bad_data,
                     fmt::format("{}: feature {} has no values in the training part", name, c + 1));
            }
            a.table.x(r, c) = static_cast<float>(sum / count);
            ++filled;
        }
    }
    if (filled > 0)
        note(exec, fmt::format("{}: {} missing values replaced by means of the training part", name, filled));
}

Dataset load_file(const std::filesystem::path& path, const LoadOptions& options, const Exec& exec) {
    auto table = read_labelled(path, options.read, exec);
    const auto hash = table_sha256(table);
    if (table.x.rows() < 2)
        fail(ErrorCode::bad_data, fmt::format("{}: expected at least two rows", path.string()));
    if (options.task == Task::regression) check_targets(table, path);
    auto a =
        arrange_halves(std::move(table), {.protocol = options.protocol, .split_seed = options.split_seed});
    if (options.read.missing == Missing::mean) fill_missing(path.string(), exec, a);
    auto data = finish(std::move(a), path.string(), options, exec);
    data.source_sha256 = hash;
    return data;
}

struct FilePair {
    std::filesystem::path train;
    std::filesystem::path test;
};

bool is_file(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
}

// Error{bad_usage} if only one of the two files exists.
std::optional<FilePair> find_pair(const std::string& name) {
    std::string absent;
    for (auto colon = name.find(':'); colon != std::string::npos; colon = name.find(':', colon + 1)) {
        FilePair pair{.train = name.substr(0, colon), .test = name.substr(colon + 1)};
        const bool train = is_file(pair.train);
        const bool test = is_file(pair.test);
        if (train && test) return pair;
        if (train || test)
            absent = fmt::format("the {} file '{}' does not exist", train ? "test" : "training",
                                 (train ? pair.test : pair.train).string());
    }
    if (!absent.empty()) fail(ErrorCode::bad_usage, fmt::format("{}: {}", name, absent));
    return std::nullopt;
}

// After a pipe is read here, nothing would be left for the run itself.
void check_repeatable(const std::string& name) {
    auto files = std::vector<std::filesystem::path>{name};
    if (!is_file(name)) {
        const auto pair = find_pair(name);
        if (!pair) return;
        files = {pair->train, pair->test};
    }
    for (const auto& file : files) {
        if (!std::filesystem::is_regular_file(file))
            fail(ErrorCode::bad_usage,
                 fmt::format("{}: is not a regular file, and a sweep reads its data several times",
                             file.string()));
    }
}

Dataset load_pair(const FilePair& pair, const LoadOptions& options, const Exec& exec) {
    auto train = read_labelled(pair.train, options.read, exec);
    auto read = options.read;
    // Only LIBSVM files may omit trailing columns; for other formats the column counts are compared below.
    if (format_for(pair.test, read) == Format::libsvm)
        read.features = static_cast<std::uint32_t>(train.x.cols());
    auto test = read_labelled(pair.test, read, exec);
    if (train.x.cols() != test.x.cols()) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: {} features, but the training file {} has {}", pair.test.string(),
                         test.x.cols(), pair.train.string(), train.x.cols()));
    }
    if (train.x.rows() == 0 || test.x.rows() == 0)
        fail(ErrorCode::bad_data, fmt::format("{}: a part has no rows", pair.train.string()));
    if (train.labels.empty() || test.labels.empty()) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: no labelled rows", (train.labels.empty() ? pair.train : pair.test).string()));
    }
    if (options.task == Task::regression) {
        check_targets(train, pair.train);
        check_targets(test, pair.test);
    }
    const std::array hashes = {table_sha256(train), table_sha256(test)};
    const auto name = pair.train.string() + ":" + pair.test.string();
    auto a = arrange_pair(std::move(train), std::move(test));
    if (options.read.missing == Missing::mean) fill_missing(name, exec, a);
    auto data = finish(std::move(a), name, options, exec);
    data.source_sha256 = hash_of(hashes);
    return data;
}

}  // namespace

Dataset load_dataset(const std::string& name, const LoadOptions& options, const Exec& exec) {
    if (const auto* set = find_set(name)) return load_registered(*set, options, exec);
    if (const auto g = find_generator(name)) return load_generated(*g, options, exec);
    if (is_file(name)) return load_file(name, options, exec);
    if (const auto pair = find_pair(name)) return load_pair(*pair, options, exec);
    std::vector<std::string_view> sets;
    for (const auto& set : registered_sets()) sets.emplace_back(set.name);
    fail(ErrorCode::bad_usage,
         fmt::format("{} is not a data set ({}), a generator ({}), a file or a pair of files TRAIN:TEST",
                     in_quotes(name), join_names(sets), join_names(EnumNames<Generator>::values)));
}

DatasetFacts dataset_facts(const std::string& name, const LoadOptions& options, const Exec& exec) {
    if (const auto* set = find_set(name)) {
        check_task(name, Task::classification, options.task);
        return registered_facts(*set, options.protocol);
    }
    if (const auto g = find_generator(name)) return generated_facts(*g, options);
    check_repeatable(name);
    const auto data = load_dataset(name, options, exec);
    return {.source_sha256 = data.source_sha256,
            .features = data.train.x.cols(),
            .train_rows = data.train.x.rows(),
            .test_rows = data.test.x.rows(),
            .classes = data.classes.size(),
            .uses_split_seed = is_file(name)};
}

}  // namespace imka
