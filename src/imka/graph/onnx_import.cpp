#include "imka/graph/onnx_import.hpp"

#include "imka/base/error.hpp"

#if IMKA_HAVE_ONNX
#include <fmt/format.h>
#include <onnx/common/version.h>
#include <onnx/onnx-ml.pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "imka/base/file.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/simplify.hpp"
#endif

namespace imka::graph {

#if IMKA_HAVE_ONNX
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 31U;  // a limit of the file format
constexpr std::size_t kMostAxes = 64;

// A message about a part of the file.
[[noreturn]] void fail_file(const OnnxSource& source, std::string_view message) {
    fail(ErrorCode::bad_data, fmt::format("{}: {}", source.name, message));
}

template <class Message>
void parse(std::string_view bytes, const OnnxSource& source, Message& message) {
    if (bytes.size() >= kMostBytes) fail_file(source, "larger than 2 GiB; store weights in external files");
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        fail_file(source, "not an ONNX file, or truncated");
}

// Names of element types that are not supported.
std::string element_type(int number) {
    static const std::map<int, std::string_view> names = {
        {8, "string"},          {14, "complex64"},  {15, "complex128"},     {17, "float8e4m3fn"},
        {18, "float8e4m3fnuz"}, {19, "float8e5m2"}, {20, "float8e5m2fnuz"}, {21, "uint4"},
        {22, "int4"},           {23, "float4e2m1"}, {24, "float8e8m0"}};
    const auto found = names.find(number);
    return found != names.end() ? std::string(found->second) : fmt::format("number {}", number);
}

DType dtype_of_tensor(const onnx::TensorProto& t, const OnnxSource& source) {
    const auto type = dtype_of_onnx(t.data_type());
    if (!type)
        throw UnsupportedError(fmt::format("{}: tensor {} has element type {}, which is not supported",
                                           source.name, in_quotes(t.name()), element_type(t.data_type())));
    return *type;
}

Shape shape_of(const onnx::TensorProto& t, const OnnxSource& source) {
    Shape shape(t.dims().begin(), t.dims().end());
    const auto invalid = [](std::int64_t size) { return size < 0; };
    if (shape.size() > kMostAxes || std::ranges::any_of(shape, invalid))
        fail_file(source, fmt::format("tensor {} has an invalid shape", in_quotes(t.name())));
    return shape;
}

// Location of the bytes of a tensor in another file.
struct External {
    std::string location;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length = {};
};

std::uint64_t parse_size(const std::string& text, const std::string& key, const OnnxSource& source) {
    std::uint64_t value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9' || value > (std::uint64_t{1} << 50U))
            fail_file(source,
                      fmt::format("external data: {} must be a number, got {}", key, in_quotes(text)));
        value = 10 * value + static_cast<std::uint64_t>(c - '0');
    }
    return value;
}

External external_of(const onnx::TensorProto& t, const OnnxSource& source) {
    External e;
    for (const auto& entry : t.external_data()) {
        if (entry.key() == "location") e.location = entry.value();
        if (entry.key() == "offset") e.offset = parse_size(entry.value(), entry.key(), source);
        if (entry.key() == "length") e.length = parse_size(entry.value(), entry.key(), source);
    }
    return e;
}

// The path of external data. Links are followed before the check, so they cannot lead out of the folder.
fs::path external_path(const External& e, const OnnxSource& source) {
    const fs::path location(e.location);
    const auto outside = [&] {
        fail_file(source,
                  fmt::format("external data {} is not in the folder of the model", in_quotes(e.location)));
    };
    if (source.folder.empty() || e.location.empty() || e.location.find('\0') != std::string::npos ||
        location.is_absolute())
        outside();
    std::error_code error;
    const auto folder = fs::canonical(source.folder, error);
    if (error) outside();
    auto path = fs::weakly_canonical(folder / location, error);
    if (error) outside();
    const auto relative = path.lexically_relative(folder);
    if (relative.empty() || *relative.begin() == ".." || *relative.begin() == ".") outside();
    return path;
}

void read_external(const onnx::TensorProto& t, const OnnxSource& source, std::size_t bytes, std::byte* out) {
    const auto e = external_of(t, source);
    const auto path = external_path(e, source);
    std::error_code error;
    const auto size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    if (error || e.offset > size || bytes > size - e.offset || (e.length && *e.length != bytes))
        fail_file(
            source,
            fmt::format("external data {} of tensor {} is missing or has the wrong size: expected {} bytes "
                        "at offset {}",
                        in_quotes(e.location), in_quotes(t.name()), bytes, e.offset));
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(e.offset));
    if (!file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(bytes)))
        fail(ErrorCode::io, fmt::format("{}: cannot be read", path.string()));
}

// Elements stored in one of the typed fields.
template <class To, class Field>
void copy_field(const Field& field, std::span<To> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto value = field.Get(static_cast<int>(i));
        if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
            out[i] = To{static_cast<std::uint16_t>(value)};
        } else {
            out[i] = static_cast<To>(value);
        }
    }
}

// Number of elements in the field that a type uses.
std::size_t field_size(const onnx::TensorProto& t, DType type) {
    switch (type) {
        case DType::f32:
            return static_cast<std::size_t>(t.float_data_size());
        case DType::f64:
            return static_cast<std::size_t>(t.double_data_size());
        case DType::i64:
            return static_cast<std::size_t>(t.int64_data_size());
        case DType::u32:
        case DType::u64:
            return static_cast<std::size_t>(t.uint64_data_size());
        default:
            return static_cast<std::size_t>(t.int32_data_size());
    }
}

void copy_fields(const onnx::TensorProto& t, Tensor& out) {
    visit_dtype(out.type, [&](auto zero) {
        using T = decltype(zero);
        const auto to = out.values<T>();
        if constexpr (std::is_same_v<T, float>) {
            copy_field(t.float_data(), to);
        } else if constexpr (std::is_same_v<T, double>) {
            copy_field(t.double_data(), to);
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
            copy_field(t.int64_data(), to);
        } else if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
            copy_field(t.uint64_data(), to);
        } else {
            copy_field(t.int32_data(), to);
        }
    });
}

// bool elements must be 0 or 1.
void normalize_bools(Tensor& t) {
    if (t.type != DType::bool_) return;
    for (auto& b : t.bytes) b = b == std::byte{0} ? b : std::byte{1};
}

Tensor tensor_of(const onnx::TensorProto& t, const OnnxSource& source) {
    const auto type = dtype_of_tensor(t, source);
    const auto shape = shape_of(t, source);
    const auto count = element_count(shape);
    const bool external = t.data_location() == onnx::TensorProto::EXTERNAL;
    const auto wrong_size = [&](std::size_t found, std::string_view unit) {
        fail_file(source, fmt::format("tensor {} of shape {} has {} {}", in_quotes(t.name()), to_text(shape),
                                      found, unit));
    };
    // Allocates no memory before it is known that the file has the elements.
    if (external) {
        const auto e = external_of(t, source);
        std::error_code error;
        const auto path = external_path(e, source);
        const auto size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
        if (error || size < count * byte_size(type))
            fail_file(source, fmt::format("external data {} of tensor {} is missing or too short",
                                          in_quotes(e.location), in_quotes(t.name())));
    } else if (t.has_raw_data()) {
        if (t.raw_data().size() != count * byte_size(type)) wrong_size(t.raw_data().size(), "bytes");
    } else if (field_size(t, type) != count) {
        wrong_size(field_size(t, type), "elements");
    }
    Tensor out(type, shape);
    if (external) {
        read_external(t, source, out.bytes.size(), out.bytes.data());
    } else if (t.has_raw_data()) {
        if (!out.bytes.empty()) std::memcpy(out.bytes.data(), t.raw_data().data(), out.bytes.size());
    } else {
        copy_fields(t, out);
    }
    normalize_bools(out);
    return out;
}

TensorType type_of_value(const onnx::ValueInfoProto& info, const OnnxSource& source) {
    if (!info.type().has_tensor_type())
        throw UnsupportedError(
            fmt::format("{}: {} is not a tensor; sequences, maps and optional values are not supported",
                        source.name, in_quotes(info.name())));
    const auto& tensor = info.type().tensor_type();
    const auto type = dtype_of_onnx(tensor.elem_type());
    if (!type)
        throw UnsupportedError(fmt::format("{}: {} has element type {}, which is not supported", source.name,
                                           in_quotes(info.name()), element_type(tensor.elem_type())));
    if (!tensor.has_shape()) return {*type, std::nullopt};
    Dims dims;
    for (const auto& dim : tensor.shape().dim()) {
        if (dim.has_dim_value() && dim.dim_value() < 0)
            fail_file(source, fmt::format("{} has a negative size", in_quotes(info.name())));
        dims.push_back(dim.has_dim_value() ? Dim{dim.dim_value()} : Dim{Dim::kUnknown, dim.dim_param()});
    }
    if (dims.size() > kMostAxes)
        fail_file(source, fmt::format("{} has too many axes", in_quotes(info.name())));
    return {*type, std::move(dims)};
}

Attribute attribute_of(const onnx::AttributeProto& a, const Node& node, const OnnxSource& source) {
    using P = onnx::AttributeProto;
    switch (a.type()) {
        case P::INT:
            return a.i();
        case P::FLOAT:
            return a.f();
        case P::STRING:
            return a.s();
        case P::INTS:
            return std::vector<std::int64_t>(a.ints().begin(), a.ints().end());
        case P::FLOATS:
            return std::vector<float>(a.floats().begin(), a.floats().end());
        case P::STRINGS:
            return std::vector<std::string>(a.strings().begin(), a.strings().end());
        case P::TENSOR:
            return tensor_of(a.t(), source);
        default:
            fail_unsupported(node,
                             fmt::format("the type of attribute {} is not supported", in_quotes(a.name())));
    }
}

class Importer {
public:
    Importer(onnx::ModelProto model, const OnnxSource& source) : model_(std::move(model)), source_(source) {}

    Graph import() {
        opset_ = opset();
        graph_.name = model_.graph().name();
        add_initializers();
        add_inputs();
        for (const auto& node : model_.graph().node()) add_node(node);
        add_outputs();
        sort_nodes(graph_);
        infer_types(graph_);
        check_outputs();
        verify(graph_);
        return std::move(graph_);
    }

private:
    int opset() const {
        for (const auto& set : model_.opset_import()) {
            if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
            if (set.version() < kFirstOpset || set.version() > kLastOpset)
                throw UnsupportedError(fmt::format("{}: operator set {} is not supported; {} to {} are",
                                                   source_.name, set.version(), kFirstOpset, kLastOpset));
            return static_cast<int>(set.version());
        }
        return kFirstOpset;
    }

    ValueId define(const std::string& name, TensorType type) {
        if (name.empty()) fail_file(source_, "a tensor has no name");
        const auto id = static_cast<ValueId>(graph_.values.size());
        if (!ids_.try_emplace(name, id).second)
            fail_file(source_, fmt::format("duplicate tensor name {}", in_quotes(name)));
        return add_value(graph_, {name, std::move(type)});
    }

    // Values may be used before they are defined: nodes are sorted later.
    ValueId refer(const std::string& name) {
        if (name.empty()) return kNoValue;
        const auto [at, added] = ids_.try_emplace(name, static_cast<ValueId>(graph_.values.size()));
        if (added) add_value(graph_, {name, {}});
        return at->second;
    }

    void add_initializers() {
        if (model_.graph().sparse_initializer_size() > 0)
            throw UnsupportedError(fmt::format("{}: sparse initializers are not supported", source_.name));
        for (auto& t : *model_.mutable_graph()->mutable_initializer()) {
            auto value = tensor_of(t, source_);
            std::string().swap(*t.mutable_raw_data());  // the weights of a large model are in memory once
            const auto id = define(t.name(), type_of(std::as_const(value).view()));
            graph_.values[id].constant = std::move(value);
        }
    }

    // An input that is also an initializer has a default value: it is a constant here.
    void add_inputs() {
        std::set<std::string> names;
        for (const auto& info : model_.graph().input()) {
            if (!names.insert(info.name()).second)
                fail_file(source_, fmt::format("duplicate tensor name {}", in_quotes(info.name())));
            const auto found = ids_.find(info.name());
            if (found != ids_.end() && graph_.values[found->second].constant) continue;
            graph_.inputs.push_back(define(info.name(), type_of_value(info, source_)));
        }
    }

    void add_node(const onnx::NodeProto& from) {
        Node node;
        node.op = from.op_type();
        node.name = from.name();
        for (const auto& output : from.output()) {
            if (node.name.empty()) node.name = output;
        }
        node.opset = opset_;
        if (!from.domain().empty() && from.domain() != "ai.onnx")
            fail_unsupported(
                node, fmt::format("operators of domain {} are not supported; instead: export the model "
                                  "without them",
                                  in_quotes(from.domain())));
        (void)operator_of(node);
        for (const auto& a : from.attribute()) {
            if (!node.attributes.try_emplace(a.name(), attribute_of(a, node, source_)).second)
                fail_node(node, fmt::format("duplicate attribute {}", in_quotes(a.name())));
        }
        for (const auto& name : from.input()) node.inputs.push_back(refer(name));
        for (const auto& name : from.output()) node.outputs.push_back(output(node, name));
        if (node.outputs.empty()) fail_node(node, "it has no outputs");
        graph_.nodes.push_back(std::move(node));
    }

    ValueId output(const Node& node, const std::string& name) {
        const auto id = refer(name);
        if (id == kNoValue) return id;
        const bool given =
            graph_.values[id].constant || std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
        if (given || !computed_.insert(id).second)
            fail_node(node,
                      fmt::format("output {} is defined twice: duplicate tensor name", in_quotes(name)));
        return id;
    }

    void add_outputs() {
        for (const auto& info : model_.graph().output()) {
            const auto found = ids_.find(info.name());
            if (found == ids_.end())
                fail_file(source_, fmt::format("output {} of the graph is not computed by any node",
                                               in_quotes(info.name())));
            graph_.outputs.push_back(found->second);
        }
        if (graph_.outputs.empty()) fail_file(source_, "the graph has no outputs");
    }

    // Declared types must agree with the inferred types.
    void check_outputs() const {
        for (int k = 0; k < model_.graph().output_size(); ++k) {
            const auto& info = model_.graph().output(k);
            const auto& value = graph_.values[graph_.outputs[static_cast<std::size_t>(k)]];
            if (!info.has_type()) continue;
            const auto declared = type_of_value(info, source_);
            const auto shape = known_shape(declared);
            const auto inferred = known_shape(value.type);
            if (declared.type != value.type.type || (shape && inferred && *shape != *inferred))
                fail_file(source_,
                          fmt::format("output {} is declared as {}, but its node computes {}",
                                      in_quotes(info.name()), to_text(declared), to_text(value.type)));
        }
    }

    onnx::ModelProto model_;
    const OnnxSource& source_;
    Graph graph_;
    int opset_ = kFirstOpset;
    std::map<std::string, ValueId> ids_;
    std::set<ValueId> computed_;
};

}  // namespace

bool has_onnx() {
    return true;
}

std::string_view onnx_release() {
    return onnx::LAST_RELEASE_VERSION;
}

namespace {

onnx::ModelProto model_of(std::string_view bytes, const OnnxSource& source) {
    onnx::ModelProto model;
    parse(bytes, source, model);
    if (!model.has_graph()) fail_file(source, "not an ONNX model: it has no graph");
    return model;
}

}  // namespace

Graph parse_onnx(std::string_view bytes, const OnnxSource& source) {
    return Importer(model_of(bytes, source), source).import();
}

Graph load_onnx(const std::filesystem::path& path) {
    const auto folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
    const OnnxSource source{path.string(), folder};
    auto model = model_of(read_file(path, kMostBytes), source);  // the bytes are not kept
    return simplified(Importer(std::move(model), source).import());
}

Tensor load_onnx_tensor(const std::filesystem::path& path) {
    const OnnxSource source{path.string(), {}};
    onnx::TensorProto t;
    parse(read_file(path, kMostBytes), source, t);
    return tensor_of(t, source);
}

#else

namespace {

[[noreturn]] void fail_without_onnx() {
    fail(ErrorCode::missing_part,
         "this imka was built without ONNX; install libonnx-dev and libprotobuf-dev and build it again with "
         "-DIMKA_ONNX=ON");
}

}  // namespace

bool has_onnx() {
    return false;
}

std::string_view onnx_release() {
    return "";
}

Graph parse_onnx(std::string_view, const OnnxSource&) {
    fail_without_onnx();
}

Graph load_onnx(const std::filesystem::path&) {
    fail_without_onnx();
}

Tensor load_onnx_tensor(const std::filesystem::path&) {
    fail_without_onnx();
}

#endif

}  // namespace imka::graph
