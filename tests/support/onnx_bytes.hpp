// Writes ONNX models by hand (protocol buffers), also invalid ones, for tests of the reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_bytes {

class Message {
public:
    Message& number(int field, std::int64_t value) {
        varint(static_cast<std::uint64_t>(field) << 3U);
        varint(static_cast<std::uint64_t>(value));
        return *this;
    }
    // The beginning of a text or message whose bytes follow.
    Message& header(int field, std::size_t size) {
        varint(static_cast<std::uint64_t>(field) << 3U | 2U);
        varint(size);
        return *this;
    }
    Message& text(int field, std::string_view value) {
        header(field, value.size());
        bytes_ += value;
        return *this;
    }
    Message& real(int field, float value) {
        varint(static_cast<std::uint64_t>(field) << 3U | 5U);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
        return *this;
    }
    Message& message(int field, const Message& value) { return text(field, value.bytes_); }
    const std::string& bytes() const { return bytes_; }

private:
    void varint(std::uint64_t value) {
        while (value >= 128) {
            bytes_ += static_cast<char>((value & 127U) | 128U);
            value >>= 7U;
        }
        bytes_ += static_cast<char>(value);
    }
    std::string bytes_;
};

// A float tensor in raw form; give fewer elements than the shape has to make it invalid.
inline Message tensor(std::string_view name, const std::vector<std::int64_t>& shape,
                      const std::vector<float>& values) {
    Message t;
    for (const auto size : shape) t.number(1, size);
    std::string raw(values.size() * sizeof(float), '\0');
    if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
    return t.number(2, 1).text(8, name).text(9, raw);
}

inline Message ints(std::string_view name, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& values) {
    Message t;
    for (const auto size : shape) t.number(1, size);
    t.number(2, 7).text(8, name);
    for (const auto value : values) t.number(7, value);
    return t;
}

// A float value; negative sizes are dimensions named "n".
inline Message value(std::string_view name, const std::vector<std::int64_t>& shape, int type = 1) {
    Message dims;
    for (const auto size : shape) {
        Message dim;
        size < 0 ? dim.text(2, "n") : dim.number(1, size);
        dims.message(1, dim);
    }
    return Message().text(1, name).message(2,
                                           Message().message(1, Message().number(1, type).message(2, dims)));
}

inline Message int_attribute(std::string_view name, std::int64_t value) {
    return Message().text(1, name).number(3, value).number(20, 2);
}

inline Message ints_attribute(std::string_view name, const std::vector<std::int64_t>& values) {
    Message a;
    a.text(1, name).number(20, 7);
    for (const auto v : values) a.number(8, v);
    return a;
}

inline Message node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {}) {
    Message n;
    for (const auto& name : inputs) n.text(1, name);
    for (const auto& name : outputs) n.text(2, name);
    n.text(3, "node_" + (outputs.empty() ? std::string("0") : outputs[0])).text(4, op);
    for (const auto& a : attributes) n.message(5, a);
    return n;
}

struct Model {
    std::vector<Message> nodes;
    std::vector<Message> initializers = {};
    std::vector<Message> inputs = {};
    std::vector<Message> outputs = {};
    std::int64_t opset = 17;

    std::string bytes() const {
        Message graph;
        for (const auto& n : nodes) graph.message(1, n);
        graph.text(2, "test");
        for (const auto& t : initializers) graph.message(5, t);
        for (const auto& v : inputs) graph.message(11, v);
        for (const auto& v : outputs) graph.message(12, v);
        return Message()
            .number(1, 8)
            .message(7, graph)
            .message(8, Message().text(1, "").number(2, opset))
            .bytes();
    }
};

}  // namespace onnx_bytes
