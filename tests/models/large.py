#!/usr/bin/env python3
"""Writes ResNet-18 and VGG16 with random weights as ONNX files (47 and 553 MB), to measure imka deploy.

    large.py FOLDER

Needs numpy and onnx (Debian: python3-onnx).
"""
import sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Net:
    """A network for images of 3 x 224 x 224 with 1000 outputs."""

    def __init__(self):
        self.nodes, self.weights, self.n = [], [], 0
        self.rng = np.random.default_rng(1)

    def name(self):
        self.n += 1
        return f"v{self.n}"

    def tensor(self, shape):
        name = f"w{len(self.weights)}"
        fan = int(np.prod(shape[1:])) or 1
        self.weights.append(numpy_helper.from_array((self.rng.standard_normal(shape, dtype=np.float32) * (2 / fan) ** .5), name))
        return name

    def op(self, kind, inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(kind, inputs, [out], name=f"{kind}_{out}", **attributes))
        return out

    def conv(self, x, cin, cout, k, stride=1, relu=True):
        y = self.op("Conv", [x, self.tensor((cout, cin, k, k)), self.tensor((cout,))], kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)
        return self.op("Relu", [y]) if relu else y

    def fc(self, x, cin, cout):
        return self.op("Gemm", [x, self.tensor((cout, cin)), self.tensor((cout,))], transB=1)

    def write(self, path):
        self.nodes[-1].output[0] = "y"
        g = helper.make_graph(self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 224, 224])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1000])], self.weights)
        save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 15)]), path)


def resnet18(path):
    n = Net()
    x = n.op("MaxPool", [n.conv("x", 3, 64, 7, 2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for width, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        for block in range(2):
            s = stride if block == 0 else 1
            y = n.conv(n.conv(x, c, width, 3, s), width, width, 3, 1, False)
            short = x if s == 1 and c == width else n.conv(x, c, width, 1, s, False)
            x = n.op("Relu", [n.op("Add", [y, short])])
            c = width
    x = n.op("Flatten", [n.op("GlobalAveragePool", [x])])
    n.fc(x, 512, 1000)
    n.write(path)


def vgg16(path):
    n = Net()
    x, c = "x", 3
    for width, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(count):
            x = n.conv(x, c, width, 3)
            c = width
        x = n.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Flatten", [x])
    x = n.op("Relu", [n.fc(x, 25088, 4096)])
    x = n.op("Relu", [n.fc(x, 4096, 4096)])
    n.fc(x, 4096, 1000)
    n.write(path)


if __name__ == "__main__":
    resnet18(sys.argv[1] + "/resnet18.onnx")
    vgg16(sys.argv[1] + "/vgg16.onnx")
