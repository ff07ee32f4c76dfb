#include "imka/deploy/matrix_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/io/byte_stream.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/safetensors.hpp"
#include "imka/io/text.hpp"
#include "imka/io/yaml_list.hpp"

namespace imka {
namespace embedded {
extern const std::string_view networks;
}
namespace {

std::optional<std::size_t> parse_count(std::string_view text) {
    std::size_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// Cuts the text at the last `mark` and returns the number after it; 1 if there is no mark.
std::optional<std::size_t> take_suffix(std::string_view& text, char mark) {
    const auto place = text.rfind(mark);
    if (place == std::string_view::npos) return 1;
    const auto number = parse_count(text.substr(place + 1));
    text = text.substr(0, place);
    return number;
}

ListedMatrix parse_shape(std::string_view word) {
    std::string_view rest = word;
    const auto vectors = take_suffix(rest, '@');
    const auto calls = take_suffix(rest, '*');
    const auto cross = rest.find('x');
    const auto inputs = parse_count(rest.substr(0, cross));
    const auto outputs = cross == std::string_view::npos ? std::nullopt : parse_count(rest.substr(cross + 1));
    if (!vectors || !calls || !inputs || !outputs)
        fail(ErrorCode::bad_config,
             fmt::format("invalid shape {}; expected INPUTSxOUTPUTS[*CALLS][@VECTORS], as in 640x128*2@1024",
                         in_quotes(word)));
    return {.name = {}, .inputs = *inputs, .outputs = *outputs, .calls = *calls, .vectors = *vectors};
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const auto end = std::min(text.find_first_of(separators), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

ListedMatrix csv_matrix(std::string_view line, const ByteStream& stream) {
    const auto fields = split(line, ",");
    if (fields.size() < 3 || fields.size() > 5)
        stream.fail_line(
            fmt::format("{} fields; expected name,inputs,outputs[,calls[,vectors]]", fields.size()));
    std::array<std::size_t, 4> numbers{0, 0, 1, 1};
    for (std::size_t f = 1; f < fields.size(); ++f) {
        const auto value = parse_count(trimmed(fields[f]));
        if (!value) stream.fail_line(fmt::format("{} is not a whole number", in_quotes(fields[f])));
        numbers[f - 1] = *value;
    }
    return {std::string(trimmed(fields[0])), numbers[0], numbers[1], numbers[2], numbers[3]};
}

MatrixList read_csv_list(const std::filesystem::path& path) {
    ByteStream stream(path, {.max_bytes = std::uint64_t{1} << 26U});
    MatrixList list;
    std::string_view line;
    while (stream.next_line(line)) {
        const auto text = trimmed(line);
        const bool header = stream.line() == 1 && text.starts_with("name,");
        if (text.empty() || header) continue;
        list.push_back(csv_matrix(text, stream));
    }
    return list;
}

// Reads the keys after and after_all; nullopt if both are missing.
std::optional<CallSite> read_site(YamlReader& entry) {
    if (entry.find("after") == nullptr && entry.find("after_all") == nullptr) return std::nullopt;
    CallSite site;
    if (entry.find("after") != nullptr) site.after = entry.texts("after");
    if (entry.find("after_all") != nullptr) site.after_all = entry.texts("after_all");
    return site;
}

// calls: a number, or a list of maps with the dependencies of each call.
void read_calls(YamlReader& entry, ListedMatrix& shape) {
    const auto* calls = entry.find("calls");
    if (calls != nullptr && calls->is_list()) {
        for (auto& call : entry.maps("calls")) {
            auto site = read_site(call);
            if (!site) call.fail_here("expected 'after' or 'after_all'");
            shape.sites.push_back(std::move(*site));
            call.done();
        }
        shape.calls = shape.sites.size();
        return;
    }
    if (calls != nullptr) shape.calls = entry.whole_number("calls", kMostVectors);
    if (auto site = read_site(entry)) shape.sites = {std::move(*site)};
}

MatrixList read_yaml_list(YamlReader& reader) {
    MatrixList list;
    for (auto& entry : reader.maps("matrices")) {
        ListedMatrix shape{.name = entry.text("name"),
                           .inputs = entry.whole_number("inputs", kMostSide),
                           .outputs = entry.whole_number("outputs", kMostSide)};
        read_calls(entry, shape);
        if (entry.find("vectors") != nullptr) shape.vectors = entry.whole_number("vectors", kMostVectors);
        entry.done();
        list.push_back(std::move(shape));
    }
    return list;
}

MatrixList tensor_shapes(const TensorFile& file) {
    MatrixList list;
    const auto add = [&](const auto& tensors) {
        for (const auto& [name, values] : tensors) {
            if (values.rows() > 1) list.push_back({name, values.rows(), values.cols()});
        }
    };
    add(file.f32);
    add(file.f64);
    return list;
}

MatrixList read_list(const std::filesystem::path& path) {
    const auto extension = path.extension();
    if (extension == ".csv") return read_csv_list(path);
    if (extension == ".yaml" || extension == ".yml" || extension == ".json") {
        const auto tree = read_yaml(path);
        YamlReader reader(tree);
        auto list = read_yaml_list(reader);
        reader.done();
        return list;
    }
    if (extension == ".npy") {
        const auto weights = read_npy(path);
        return {{path.stem().string(), weights.rows(), weights.cols()}};
    }
    if (extension == ".safetensors") return tensor_shapes(read_safetensors(path));
    fail(ErrorCode::bad_usage,
         fmt::format("{}: unknown kind of matrix list; expected .csv, .yaml, .json, .npy "
                     "or .safetensors",
                     path.string()));
}

void check_range(const ListedMatrix& m, std::string_view what, std::size_t value, std::size_t most) {
    if (value < 1 || value > most)
        fail(ErrorCode::bad_config,
             fmt::format("matrix {}: {} {}; expected 1 to {}", in_quotes(m.name), value, what, most));
}

void check_sites(const MatrixList& list) {
    std::map<std::string_view, const ListedMatrix*> known;
    for (const auto& m : list) known.emplace(m.name, &m);
    const auto check = [&](const ListedMatrix& m, const std::string& name) {
        const auto [matrix, call] = split_call_name(name);
        const auto found = known.find(matrix);
        if (found == known.end()) {
            std::vector<std::string_view> names;
            for (const auto& other : list) names.push_back(other.name);
            fail(ErrorCode::bad_config,
                 fmt::format("matrix {}: after {}: no such matrix; {}", in_quotes(m.name), in_quotes(name),
                             nearest_names(matrix, names)));
        }
        if (call && *call >= found->second->calls)
            fail(ErrorCode::bad_config,
                 fmt::format("matrix {}: after {}: the matrix has {} calls, counted from 0",
                             in_quotes(m.name), in_quotes(name), found->second->calls));
    };
    for (const auto& m : list) {
        if (m.sites.size() > 1 && m.sites.size() != m.calls)
            fail(ErrorCode::bad_config, fmt::format("matrix {}: {} entries in 'calls'; expected {}",
                                                    in_quotes(m.name), m.sites.size(), m.calls));
        for (const auto& site : m.sites) {
            for (const auto& name : site.after) check(m, name);
            for (const auto& name : site.after_all) check(m, name);
        }
    }
}

Network read_network(YamlReader& reader) {
    Network network{.name = reader.text("name"), .description = reader.text("description")};
    if (reader.find("known_cores") != nullptr)
        network.known_cores = reader.whole_number("known_cores", kMostSide);
    if (reader.find("released_cores") != nullptr)
        network.released_cores = reader.whole_number("released_cores", kMostSide);
    if (const auto shapes = reader.find_text("shapes")) {
        network.matrices = parse_shapes(*shapes);
    } else {
        network.matrices = read_yaml_list(reader);
    }
    validate(network.matrices);
    return network;
}

}  // namespace

void validate(const MatrixList& list) {
    if (list.empty()) fail(ErrorCode::bad_config, "no matrices; expected at least one");
    if (list.size() > kMostMatrices)
        fail(ErrorCode::bad_config,
             fmt::format("{} matrices; expected at most {}", list.size(), kMostMatrices));
    std::set<std::string_view> names;
    for (const auto& m : list) {
        if (m.name.empty()) fail(ErrorCode::bad_config, "a matrix without a name");
        if (!names.insert(m.name).second)
            fail(ErrorCode::bad_config, fmt::format("duplicate matrix name {}", in_quotes(m.name)));
        check_range(m, "inputs", m.inputs, kMostSide);
        check_range(m, "outputs", m.outputs, kMostSide);
        check_range(m, "calls", m.calls, kMostVectors);
        check_range(m, "vectors", m.vectors, kMostVectors);
    }
    check_sites(list);
}

CallName split_call_name(std::string_view name) {
    const auto mark = name.rfind('#');
    if (mark == std::string_view::npos) return {name, std::nullopt};
    const auto call = parse_count(name.substr(mark + 1));
    return call ? CallName{name.substr(0, mark), call} : CallName{name, std::nullopt};
}

MatrixList parse_shapes(std::string_view text) {
    MatrixList list;
    for (const auto word : split(text, " ,\t\r\n")) {
        if (word.empty()) continue;
        list.push_back(parse_shape(word));
        list.back().name = fmt::format("m{}", list.size() - 1);
    }
    validate(list);
    return list;
}

MatrixList load_matrix_list(const std::filesystem::path& path) {
    auto list = read_list(path);
    try {
        validate(list);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}", path.string(), e.what()));
    }
    return list;
}

std::vector<Network> known_networks() {
    return parse_yaml_list(embedded::networks, "networks.yaml", "networks", read_network);
}

Network known_network(const std::string& name) {
    auto networks = known_networks();
    std::vector<std::string_view> names;
    names.reserve(networks.size());
    for (const auto& n : networks) names.push_back(n.name);
    return std::move(networks[find_name(name, names, "network")]);
}

}  // namespace imka
