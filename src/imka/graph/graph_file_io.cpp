// Reads and writes graphs in safetensors files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "imka/base/error.hpp"
#include "imka/graph/graph_file.hpp"

namespace imka::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr FileKind kKind{.format = kGraphFormat, .schema = "1", .renew = "save the model again"};

// Tensors get numbers in the order in which they are written.
class TensorWriter {
public:
    explicit TensorWriter(TensorFile& file) : file_(file) {}

    Json write(const Tensor& tensor) {
        const auto name = fmt::format("graph.{}", count_);
        // Floats as floats, so that other programs can show them; infinities (masks) and other types as
        // bytes.
        if (is_finite_f32(tensor)) {
            auto& out = file_.f32[name] = Matrix<float>(1, tensor.values<float>().size());
            std::ranges::copy(tensor.values<float>(), out.values().begin());
        } else {
            auto& out = file_.u8[name] = Matrix<std::uint8_t>(1, tensor.bytes.size());
            if (!tensor.bytes.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
        }
        return {{"tensor", count_++}, {"type", to_string(tensor.type)}, {"shape", tensor.shape}};
    }

private:
    static bool is_finite_f32(const Tensor& tensor) {
        return tensor.type == DType::f32 &&
               std::ranges::all_of(tensor.values<float>(), [](float v) { return std::isfinite(v); });
    }
    TensorFile& file_;
    std::size_t count_ = 0;
};

// The size is compared with that in the file before memory is allocated.
Tensor read_tensor(const Json& json, SealedReader& file) {
    const auto type = parse_enum<DType>(json.at("type").get<std::string>());
    const auto shape = json.at("shape").get<Shape>();
    const auto name = fmt::format("graph.{}", json.at("tensor").get<std::size_t>());
    const auto count = element_count(shape);
    const auto tensor_of = [&](const auto& values) {
        Tensor tensor(type, shape);
        if (count > 0) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
        return tensor;
    };
    if (type == DType::f32 && file.has_f32(name)) return tensor_of(file.f32(name, {1, count}, kAnyValue));
    const auto bytes = file.u8(name, {1, count * byte_size(type)});
    if (type == DType::bool_ && std::ranges::any_of(bytes.values(), [](auto b) { return b > 1; }))
        fail(ErrorCode::bad_data, fmt::format("tensor '{}': a bool that is neither 0 nor 1", name));
    return tensor_of(bytes);
}

Json dim_json(const Dim& dim) {
    if (dim.known()) return dim.size;
    return dim.name;
}

Dim read_dim(const Json& json) {
    if (json.is_string()) return {.name = json.get<std::string>()};
    const auto size = json.get<std::int64_t>();
    if (size < 0) fail(ErrorCode::bad_data, fmt::format("metadata 'graph': negative size {}", size));
    return {.size = size};
}

Json type_json(const TensorType& type) {
    Json json{{"type", to_string(type.type)}};
    if (!type.dims) return json;
    json["dims"] = Json::array();
    for (const auto& dim : *type.dims) json["dims"].push_back(dim_json(dim));
    return json;
}

TensorType read_type(const Json& json) {
    TensorType type{.type = parse_enum<DType>(json.at("type").get<std::string>())};
    if (!json.contains("dims")) return type;
    type.dims.emplace();
    for (const auto& dim : json.at("dims")) type.dims->push_back(read_dim(dim));
    return type;
}

// The kinds of an attribute, in the order of the variant.
constexpr std::string_view kKinds[] = {"int", "float", "text", "ints", "floats", "texts", "tensor"};

Json attribute_json(const Attribute& attribute, TensorWriter& tensors) {
    const auto value = std::visit(
        [&](const auto& v) -> Json {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Tensor>)
                return tensors.write(v);
            else
                return v;
        },
        attribute);
    return {{std::string(kKinds[attribute.index()]), value}};
}

Attribute read_attribute(const Json& json, SealedReader& file) {
    const auto entry = json.begin();
    const auto& kind = entry.key();
    const auto& value = entry.value();
    if (kind == "int") return value.get<std::int64_t>();
    if (kind == "float") return value.get<float>();
    if (kind == "text") return value.get<std::string>();
    if (kind == "ints") return value.get<std::vector<std::int64_t>>();
    if (kind == "floats") return value.get<std::vector<float>>();
    if (kind == "texts") return value.get<std::vector<std::string>>();
    if (kind == "tensor") return read_tensor(value, file);
    fail(ErrorCode::bad_data, fmt::format("metadata 'graph': unknown kind of attribute {}", in_quotes(kind)));
}

Json node_json(const Node& node, TensorWriter& tensors) {
    Json json{{"name", node.name},     {"op", node.op},           {"opset", node.opset},
              {"inputs", node.inputs}, {"outputs", node.outputs}, {"attributes", Json::object()}};
    for (const auto& [name, value] : node.attributes)
        json["attributes"][name] = attribute_json(value, tensors);
    return json;
}

Node read_node(const Json& json, SealedReader& file) {
    Node node{.name = json.at("name").get<std::string>(),
              .op = json.at("op").get<std::string>(),
              .opset = json.at("opset").get<int>(),
              .inputs = json.at("inputs").get<std::vector<ValueId>>(),
              .outputs = json.at("outputs").get<std::vector<ValueId>>()};
    for (const auto& item : json.at("attributes").items())
        node.attributes[item.key()] = read_attribute(item.value(), file);
    return node;
}

Graph parse_graph(const std::string& text, SealedReader& file) {
    const auto json = Json::parse(text);
    Graph graph{.name = json.at("name").get<std::string>(),
                .inputs = json.at("inputs").get<std::vector<ValueId>>(),
                .outputs = json.at("outputs").get<std::vector<ValueId>>()};
    for (const auto& v : json.at("values")) {
        Value value{.name = v.at("name").get<std::string>(), .type = read_type(v)};
        if (v.contains("constant")) value.constant = read_tensor(v.at("constant"), file);
        graph.values.push_back(std::move(value));
    }
    for (const auto& node : json.at("nodes")) graph.nodes.push_back(read_node(node, file));
    verify(graph);
    return graph;
}

}  // namespace

void add_graph(const Graph& graph, TensorFile& file) {
    TensorWriter tensors(file);
    Json json{{"name", graph.name},
              {"inputs", graph.inputs},
              {"outputs", graph.outputs},
              {"values", Json::array()},
              {"nodes", Json::array()}};
    for (const auto& value : graph.values) {
        auto v = type_json(value.type);
        v["name"] = value.name;
        if (value.constant) v["constant"] = tensors.write(*value.constant);
        json["values"].push_back(std::move(v));
    }
    for (const auto& node : graph.nodes) json["nodes"].push_back(node_json(node, tensors));
    file.metadata["graph"] = json.dump();
}

Graph read_graph(SealedReader& file) {
    try {
        return parse_graph(file.text("graph"), file);
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "metadata 'graph' is not the JSON text of a graph");
    }
}

void save_graph(const std::filesystem::path& path, const Graph& graph) {
    TensorFile file;
    add_graph(graph, file);
    seal(kKind, file);
    write_safetensors(path, file);
}

Graph load_graph(const std::filesystem::path& path) {
    return read_sealed(path, [](TensorFile tensors) {
        SealedReader file(kKind, std::move(tensors));
        auto graph = read_graph(file);
        file.done();
        return graph;
    });
}

}  // namespace imka::graph
