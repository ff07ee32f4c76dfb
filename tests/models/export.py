#!/usr/bin/env python3
"""Exports the small models of tests/models with PyTorch: NAME_opsetN.onnx, with an input and the output that PyTorch computes
(NAME_opsetN_input_0.pb, NAME_opsetN_output_0.pb: ONNX tensors).

    python3 tests/models/export.py             # operator sets 13 to 17
    python3 tests/models/export.py --upgrade   # operator sets 18 to 22, from those files

The first needs PyTorch 1.13 and onnx (Debian: apt-get install python3-torch python3-onnx), the second onnx 1.17 or newer
(pip install onnx). The files are part of the repository; run this only to change them.
"""
import io
import math
import pathlib
import shutil
import sys

import onnx
from onnx import numpy_helper

FOLDER = pathlib.Path(__file__).parent


def upgrade():
    """Converts files of operator set 17 with ONNX's own converter; inputs and outputs stay."""
    from onnx import version_converter
    for name, opset in (("mlp", 18), ("mlp", 21), ("cnn", 19), ("cnn", 22), ("performer", 22)):
        model = version_converter.convert_version(onnx.load(FOLDER / f"{name}_opset17.onnx"), opset)
        onnx.checker.check_model(model)
        (FOLDER / f"{name}_opset{opset}.onnx").write_bytes(model.SerializeToString())
        for kind in ("input_0.pb", "output_0.pb"):
            shutil.copy(FOLDER / f"{name}_opset17_{kind}", FOLDER / f"{name}_opset{opset}_{kind}")


if "--upgrade" in sys.argv:
    upgrade()
    sys.exit()

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 16), nn.Hardswish(),
                                    nn.Linear(16, 5), nn.LogSoftmax(dim=-1))

    def forward(self, x):
        return self.layers(x)


class Block(nn.Module):
    """A residual block with a depthwise, a grouped and a dilated convolution."""

    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)
        self.grouped = nn.Conv2d(channels, channels, 3, padding=2, dilation=2, groups=2)

    def forward(self, x):
        y = torch.relu(self.norm(self.depthwise(x)))
        return x + torch.nn.functional.silu(self.grouped(self.pointwise(y)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.block = Block(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.clamp(self.norm(self.stem(x)), -1, 3)
        x = nn.functional.max_pool2d(self.block(x), 2)
        x = nn.functional.avg_pool2d(x, 3, stride=1, padding=1)
        return torch.softmax(self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1)), dim=1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def mix(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(scores, dim=-1) @ v

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, dim=-1))
        y = self.mix(q, k, v).transpose(1, 2)
        return self.out(y.reshape(x.shape))


class PerformerAttention(Attention):
    """Linear attention with positive random features."""

    def __init__(self, width, heads, features):
        super().__init__(width, heads)
        self.register_buffer("omega", torch.randn(features, width // heads))

    def features(self, x):
        x = x * x.shape[-1] ** -0.25
        projected = torch.einsum("bhld,md->bhlm", x, self.omega)
        half_norm = (x * x).sum(dim=-1, keepdim=True) / 2
        return torch.exp(projected - half_norm) / math.sqrt(self.omega.shape[0]) + 1e-6

    def mix(self, q, k, v):
        q, k = self.features(q), self.features(k)
        memory = torch.einsum("bhlm,bhld->bhmd", k, v)
        scale = torch.einsum("bhlm,bhm->bhl", q, k.sum(dim=2))
        return torch.einsum("bhlm,bhmd->bhld", q, memory) / scale.unsqueeze(-1)


class EncoderLayer(nn.Module):
    def __init__(self, attention, width):
        super().__init__()
        self.attention = attention
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.position = nn.Parameter(torch.randn(1, 6, 16))
        self.layers = nn.Sequential(*(EncoderLayer(Attention(16, 4), 16) for _ in range(2)))
        self.head = nn.Linear(16, 3)

    def forward(self, tokens):
        x = self.layers(self.embed(tokens) + self.position)
        return torch.tanh(self.head(x.mean(dim=1)))


def randomize(model):
    """Sets statistics of batch norms other than 0 and 1, so that an error in folding them is visible."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)


MODELS = {
    "mlp": (Mlp, lambda: torch.randn(7, 12), (13, 17)),
    "cnn": (Cnn, lambda: torch.randn(2, 3, 16, 16), (13, 17)),
    "encoder": (Encoder, lambda: torch.randint(0, 20, (3, 6)), (13, 17)),
    "performer": (lambda: EncoderLayer(PerformerAttention(16, 2, 24), 16), lambda: torch.randn(2, 10, 16), (13, 17)),
}


def save_tensor(path, tensor):
    path.write_bytes(numpy_helper.from_array(tensor.numpy()).SerializeToString())


def export(name, opset):
    torch.manual_seed(sum(name.encode()) + opset)
    make, sample, _ = MODELS[name]
    model = make()
    randomize(model)
    model.eval()
    x = sample()
    with torch.no_grad():
        y = model(x)
    buffer = io.BytesIO()
    torch.onnx.export(model, (x,), buffer, opset_version=opset, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    base = FOLDER / f"{name}_opset{opset}"
    proto = onnx.load_from_string(buffer.getvalue())
    for number, node in enumerate(proto.graph.node):
        node.doc_string = ""
        node.name = f"{node.op_type}_{number}"
    base.with_suffix(".onnx").write_bytes(proto.SerializeToString())
    save_tensor(base.with_name(base.name + "_input_0.pb"), x)
    save_tensor(base.with_name(base.name + "_output_0.pb"), y)
    print(base.name, base.with_suffix(".onnx").stat().st_size, "bytes")


if __name__ == "__main__":
    for model_name, (_, _, opsets) in MODELS.items():
        for opset_version in opsets:
            export(model_name, opset_version)
