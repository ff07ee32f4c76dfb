// Networks with as many weights as real ones: placed, scheduled and costed in little memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/command.hpp"
#include "support/onnx.hpp"
#include "support/onnx_bytes.hpp"
#include "support/temp_dir.hpp"

namespace {

using onnx_bytes::Message;
using Sizes = std::vector<std::int64_t>;

// A network for images of 3 x 224 x 224. All weights are 0, so that its file takes no space on the disk.
class Network {
public:
    std::string conv(const std::string& x, Sizes kernel, std::int64_t stride) {
        const auto pad = kernel[2] / 2;
        const auto weight = weights(std::move(kernel));
        return node("Conv", {x, weight},
                    {onnx_bytes::ints_attribute("strides", {stride, stride}),
                     onnx_bytes::ints_attribute("pads", {pad, pad, pad, pad})});
    }
    std::string relu(const std::string& x) { return node("Relu", {x}); }
    std::string max_pool(const std::string& x, std::int64_t size, std::int64_t pad) {
        return node("MaxPool", {x},
                    {onnx_bytes::ints_attribute("kernel_shape", {size, size}),
                     onnx_bytes::ints_attribute("strides", {2, 2}),
                     onnx_bytes::ints_attribute("pads", {pad, pad, pad, pad})});
    }
    std::string dense(const std::string& x, Sizes shape) {
        return node("MatMul", {x, weights(std::move(shape))});
    }
    std::string node(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<Message>& attributes = {}) {
        const auto output = "v" + std::to_string(nodes_.size());
        nodes_.push_back(onnx_bytes::node(op, inputs, {output}, attributes));
        return output;
    }

    // Zeros are holes in the file.
    void write(const std::filesystem::path& path, const std::string& output) const {
        Message before;
        for (const auto& n : nodes_) before.message(1, n);
        Message after;
        after.text(2, "network")
            .message(11, onnx_bytes::value("x", {-1, 3, 224, 224}))
            .message(12, onnx_bytes::value(output, {-1, 1000}));
        std::size_t size = before.bytes().size() + after.bytes().size();
        for (const auto& [header, zeros] : weights_) size += header.size() + zeros;
        std::ofstream file(path, std::ios::binary);
        file << Message().number(1, 8).message(8, Message().text(1, "").number(2, 17)).header(7, size).bytes()
             << before.bytes();
        for (const auto& [header, zeros] : weights_) {
            file << header;
            file.seekp(static_cast<std::streamoff>(zeros), std::ios::cur);
        }
        file << after.bytes();
        ASSERT_TRUE(file.flush());
    }

private:
    std::string weights(const Sizes& shape) {
        const auto name = "w" + std::to_string(weights_.size());
        Message tensor;
        std::size_t bytes = sizeof(float);
        for (const auto n : shape) {
            tensor.number(1, n);
            bytes *= static_cast<std::size_t>(n);
        }
        tensor.number(2, 1).text(8, name).header(9, bytes);
        weights_.emplace_back(Message().header(5, tensor.bytes().size() + bytes).bytes() + tensor.bytes(),
                              bytes);
        return name;
    }

    std::vector<Message> nodes_;
    std::vector<std::pair<std::string, std::size_t>> weights_;  // bytes before the zeros, number of zeros
};

void write_resnet18(const std::filesystem::path& path) {
    Network n;
    auto x = n.max_pool(n.relu(n.conv("x", {64, 3, 7, 7}, 2)), 3, 1);
    std::int64_t channels = 64;
    for (const std::int64_t width : {64, 128, 256, 512}) {
        for (int block = 0; block < 2; ++block) {
            const std::int64_t stride = width != channels ? 2 : 1;
            const auto y =
                n.conv(n.relu(n.conv(x, {width, channels, 3, 3}, stride)), {width, width, 3, 3}, 1);
            const auto shortcut = width == channels ? x : n.conv(x, {width, channels, 1, 1}, 2);
            x = n.relu(n.node("Add", {y, shortcut}));
            channels = width;
        }
    }
    n.write(path, n.dense(n.node("Flatten", {n.node("GlobalAveragePool", {x})}), {512, 1000}));
}

void write_vgg16(const std::filesystem::path& path) {
    Network n;
    std::string x = "x";
    std::int64_t channels = 3;
    for (const auto& [width, layers] :
         {std::pair<std::int64_t, int>{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
        for (int k = 0; k < layers; ++k) {
            x = n.relu(n.conv(x, {width, channels, 3, 3}, 1));
            channels = width;
        }
        x = n.max_pool(x, 2, 0);
    }
    x = n.relu(n.dense(n.node("Flatten", {x}), {25088, 4096}));
    n.write(path, n.dense(n.relu(n.dense(x, {4096, 4096})), {4096, 1000}));
}

// Deploys under a limit of the memory that the program may allocate.
nlohmann::json deployed(const std::filesystem::path& model, std::size_t most_bytes) {
    const auto limit = "ulimit -d " + std::to_string(most_bytes / 1024) + ";";
    const auto r = run_imka("deploy '" + model.string() + "' --json --quiet", limit);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return nlohmann::json::parse(r.out);
}

TEST(LargeModels, ResNet18) {
    IMKA_NEED_ONNX();
    if (!std::string(IMKA_SANITIZE).empty()) GTEST_SKIP() << "built with a sanitizer";
    const TempDir dir;
    write_resnet18(dir / "resnet18.onnx");
    const auto j = deployed(dir / "resnet18.onnx", 300'000'000);
    EXPECT_EQ(j.at("cores"), 179) << "the best known number";
    EXPECT_TRUE(j.at("optimal"));
    EXPECT_GT(j.at("energy_joules"), 0.0);
}

TEST(LargeModels, Vgg16) {
    IMKA_NEED_ONNX();
    if (!std::string(IMKA_SANITIZE).empty()) GTEST_SKIP() << "built with a sanitizer";
    const TempDir dir;
    write_vgg16(dir / "vgg16.onnx");
    const auto j = deployed(dir / "vgg16.onnx", 2'000'000'000);
    EXPECT_EQ(j.at("cores"), j.at("lower_bound"));
    EXPECT_GT(j.at("energy_joules"), 0.0);
}

}  // namespace
