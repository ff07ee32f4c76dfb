#include "imka/graph/tensor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/npz.hpp"

namespace imka::graph {
namespace {

struct ArrayType {
    std::string_view npy;
    DType type;
};
constexpr ArrayType kArrayTypes[] = {{"f4", DType::f32}, {"f8", DType::f64},  {"i1", DType::i8},
                                     {"i2", DType::i16}, {"i4", DType::i32},  {"i8", DType::i64},
                                     {"u1", DType::u8},  {"u2", DType::u16},  {"u4", DType::u32},
                                     {"u8", DType::u64}, {"b1", DType::bool_}};

Tensor converted_to(const Tensor& in, DType type) {
    if (in.type == type) return in;
    Tensor out(type, in.shape);
    visit_dtype(in.type, [&](auto from) {
        visit_dtype(type, [&](auto to) {
            std::ranges::transform(in.values<decltype(from)>(), out.values<decltype(to)>().begin(),
                                   converted<decltype(to), decltype(from)>);
        });
    });
    return out;
}

Tensor as_tensor(const NpyArray& array) {
    Tensor tensor(std::ranges::find(kArrayTypes, array.type, &ArrayType::npy)->type,
                  {array.shape.begin(), array.shape.end()});
    if (tensor.type == DType::bool_)  // a file may have any byte, a bool only 0 and 1
        std::ranges::transform(array.bytes, tensor.bytes.begin(),
                               [](char byte) { return std::byte{byte != 0}; });
    else
        std::ranges::copy(std::as_bytes(std::span(array.bytes)), tensor.bytes.begin());
    return tensor;
}

// `where` names the array in messages.
Tensor tensor_for(const NpyArray& array, const Value& input, const std::string& where) {
    const auto tensor = as_tensor(array);
    if (is_float(tensor.type) && !is_float(input.type.type))
        fail(ErrorCode::bad_data,
             fmt::format("{}: contains {} values, but the input {} is {}", where, to_string(tensor.type),
                         in_quotes(input.name), to_text(input.type)));
    return converted_to(tensor, input.type.type);
}

}  // namespace

Tensor read_tensor(const std::filesystem::path& path, const Value& input) {
    return tensor_for(read_npy_array(path), input, path.string());
}

std::vector<Tensor> read_tensors(const std::filesystem::path& path, const Graph& graph) {
    auto arrays = read_npz(path);
    std::vector<Tensor> tensors;
    for (const auto id : graph.inputs) {
        const auto& input = graph.values[id];
        const auto found = arrays.find(input.name);
        if (found == arrays.end())
            fail(ErrorCode::bad_data,
                 fmt::format("{}: no array for the input {}", path.string(), in_quotes(input.name)));
        tensors.push_back(tensor_for(found->second, input, path.string()));
        arrays.erase(found);
    }
    if (!arrays.empty())
        fail(ErrorCode::bad_data,
             fmt::format("{}: the model has no input {}", path.string(), in_quotes(arrays.begin()->first)));
    return tensors;
}

void write_tensor(const std::filesystem::path& path, const Tensor& tensor) {
    const auto* type = std::ranges::find(kArrayTypes, tensor.type, &ArrayType::type);
    if (type == std::end(kArrayTypes)) return write_tensor(path, converted_to(tensor, DType::f32));
    NpyArray array{.type = std::string(type->npy), .shape = {tensor.shape.begin(), tensor.shape.end()}};
    array.bytes.resize(tensor.bytes.size());
    std::ranges::copy(tensor.bytes, std::as_writable_bytes(std::span(array.bytes)).begin());
    write_npy_array(path, array);
}

}  // namespace imka::graph
