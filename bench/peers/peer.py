"""Runs the peers of `imka bench`. Reads one command and writes one reply per line, so that rounds can alternate.

    hello               -> {"python": "3.11.2", "numpy": "1.24.2", "sklearn": null, ...}   null: not installed
    run NAME JSON       -> seconds of one round; data and fitted objects are kept between rounds
    check NAME JSON     -> a number that verifies the round (an accuracy, an error)
    forget              -> ok; drops the kept objects

Any reply may also be `missing PACKAGE` or `error TEXT`.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time


class Missing(Exception):
    """A library is not installed; the text is the package or command that provides it."""


PACKAGES = {
    "numpy": "python3-numpy",
    "sklearn": "python3-sklearn",
    "torch": "python3-torch",
    "cupy": "pip install cupy-cuda13x",
    "ffht": "pip install FFHT-unofficial",
    "aihwkit": "pip install aihwkit",
    "onnxruntime": "pip install onnxruntime",
}


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(PACKAGES[name])


def version(name):
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    try:
        return str(getattr(module, "__version__", None) or importlib.metadata.version(PACKAGES[name].split()[-1]))
    except importlib.metadata.PackageNotFoundError:
        return "installed"


def hello():
    found = {"python": sys.version.split()[0]}
    found.update({name: version(name) for name in PACKAGES})
    return json.dumps(found)


def gaussian(np, rows, cols, seed):
    return np.random.default_rng(seed).standard_normal((rows, cols), dtype=np.float32)


def two_classes(np, x):
    """As in the program: inside or outside the sphere that holds about half of the rows."""
    return ((x * x).sum(axis=1) > x.shape[1] - 2.0 / 3.0).astype(np.int32)


# A peer is a function that takes sizes, prepares data and returns (round, check). A round may return its own time as a
# float; check may be None.


def sklearn_features(s):
    np = need("numpy")
    need("sklearn")
    from sklearn.kernel_approximation import RBFSampler

    x = gaussian(np, s["rows"], s["d"], 0)
    sampler = RBFSampler(gamma=s["gamma"], n_components=s["D"], random_state=0).fit(x[:1000])

    def check():
        few = x[:200]
        z = sampler.transform(few)
        distance = ((few[:, None, :] - few[None, :, :]) ** 2).sum(axis=2)
        exact = np.exp(-s["gamma"] * distance)
        return np.linalg.norm(z @ z.T - exact) / np.linalg.norm(exact)

    return (lambda: sampler.transform(x)), check


def sklearn_ridge(s):
    np = need("numpy")
    need("sklearn")
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import RidgeClassifier

    x = gaussian(np, s["rows"], s["d"], 0)
    test = gaussian(np, s["test_rows"], s["d"], 1)
    y = two_classes(np, x)

    def fit_and_predict():
        sampler = RBFSampler(gamma=s["gamma"], n_components=s["D"], random_state=0)
        model = RidgeClassifier(alpha=s["alpha"]).fit(sampler.fit_transform(x), y)
        return model.predict(sampler.transform(test))

    return fit_and_predict, lambda: (fit_and_predict() == two_classes(np, test)).mean()


def torch_map(torch, s):
    """Writes the [cos, sin] features of x to z, with u as scratch; both are reused."""
    m = s["D"] // 2
    omega = torch.randn(s["d"], m) * (2.0 * s["gamma"]) ** 0.5
    scale = (2.0 / s["D"]) ** 0.5

    @torch.no_grad()
    def transform(x, u, z):
        torch.mm(x, omega, out=u)
        torch.cos(u, out=z[:, :m])
        torch.sin(u, out=z[:, m:])
        return z.mul_(scale)

    return transform


def torch_features(s):
    torch = need("torch")
    transform = torch_map(torch, s)
    x = torch.randn(s["rows"], s["d"])
    u = torch.empty(s["rows"], s["D"] // 2)
    z = torch.empty(s["rows"], s["D"])

    def check():
        few = x[:200]
        z = transform(few, torch.empty(200, s["D"] // 2), torch.empty(200, s["D"]))
        exact = torch.exp(-s["gamma"] * torch.cdist(few, few) ** 2)
        return torch.linalg.norm(z @ z.T - exact) / torch.linalg.norm(exact)

    return (lambda: transform(x, u, z)), check


def torch_ridge(s):
    """Ridge with an intercept, from the normal equations of the centred features."""
    torch = need("torch")
    transform = torch_map(torch, s)

    def two(x):
        return (x * x).sum(dim=1) > x.shape[1] - 2.0 / 3.0

    x = torch.randn(s["rows"], s["d"])
    test = torch.randn(s["test_rows"], s["d"])
    most = max(s["rows"], s["test_rows"])
    u = torch.empty(most, s["D"] // 2)
    z = torch.empty(most, s["D"])

    @torch.no_grad()
    def fit_and_predict():
        y = two(x).float() * 2.0 - 1.0
        train = transform(x, u[: s["rows"]], z[: s["rows"]])
        mean = train.mean(dim=0)
        gram = train.T @ train
        gram.addr_(mean, mean, alpha=-float(s["rows"])).diagonal().add_(s["alpha"])
        right = train.T @ (y - y.mean())
        w = torch.cholesky_solve(right[:, None], torch.linalg.cholesky(gram))[:, 0]
        intercept = y.mean() - mean @ w
        return transform(test, u[: s["test_rows"]], z[: s["test_rows"]]) @ w + intercept > 0.0

    return fit_and_predict, lambda: (fit_and_predict() == two(test)).float().mean()


GPU_CHUNKS = 8  # blocks of rows: features of all rows would not fit into memory together with ours


def on_cuda(s):
    torch = need("torch")
    if not torch.cuda.is_available():
        raise Missing("torch with CUDA")
    torch.cuda.set_device(s["gpu"])
    return torch


def compiled(torch, function):
    """Compiles for the given shapes. By default, a second shape would get code for any shape."""
    return torch.compile(function, dynamic=False)


def torch_cuda_map(torch, s):
    """The [cos, sin] features of x, compiled."""
    m = s["D"] // 2
    omega = torch.randn(s["d"], m, device="cuda") * (2.0 * s["gamma"]) ** 0.5
    scale = (2.0 / s["D"]) ** 0.5

    def transform(x):
        u = x @ omega
        return torch.cat((torch.cos(u), torch.sin(u)), dim=1) * scale

    return compiled(torch, transform)


def torch_cuda_features(s):
    torch = on_cuda(s)
    torch.backends.cuda.matmul.allow_tf32 = bool(s["tf32"])
    transform = torch_cuda_map(torch, s)
    rows = max(1, s["rows"] // GPU_CHUNKS)
    x = torch.randn(rows, s["d"], device="cuda")

    @torch.no_grad()
    def run():
        for _ in range(s["rows"] // rows):
            transform(x)
        torch.cuda.synchronize()

    return run, lambda: 0.0


def cupy_features(s):
    cp = need("cupy")
    cp.cuda.Device(s["gpu"]).use()
    m = s["D"] // 2
    rows = max(1, s["rows"] // GPU_CHUNKS)
    x = cp.random.standard_normal((rows, s["d"]), dtype=cp.float32)
    omega = cp.random.standard_normal((s["d"], m), dtype=cp.float32) * cp.float32((2.0 * s["gamma"]) ** 0.5)
    scale = cp.float32((2.0 / s["D"]) ** 0.5)
    z = cp.empty((rows, s["D"]), dtype=cp.float32)

    def run():
        for _ in range(s["rows"] // rows):
            u = x @ omega
            z[:, :m] = cp.cos(u) * scale
            z[:, m:] = cp.sin(u) * scale
        cp.cuda.Device().synchronize()

    return run, lambda: 0.0


def torch_cuda_ridge(s):
    torch = on_cuda(s)
    torch.backends.cuda.matmul.allow_tf32 = True
    transform = torch_cuda_map(torch, s)
    rows = 65536
    x = torch.randn(rows, s["d"], device="cuda")
    y = torch.randn(rows, 1, device="cuda")

    @torch.no_grad()
    def run():
        gram = torch.zeros(s["D"], s["D"], device="cuda")
        right = torch.zeros(s["D"], 1, device="cuda")
        for _ in range((s["rows"] + rows - 1) // rows):
            z = transform(x)
            gram.addmm_(z.T, z)
            right.addmm_(z.T, y)
        gram.diagonal().add_(0.5)
        torch.linalg.solve(gram.double(), right.double())
        torch.cuda.synchronize()

    return run, lambda: 0.0


def numpy_product(s):
    np = need("numpy")
    x = gaussian(np, s["rows"], s["d"], 0)
    omega = gaussian(np, s["m"], s["d"], 1)
    out = np.empty((s["rows"], s["m"]), dtype=np.float32)
    return (lambda: np.matmul(x, omega.T, out=out)), None


def numpy_normals(s):
    np = need("numpy")
    generator = np.random.default_rng(0)
    out = np.empty(s["count"], dtype=np.float32)

    def fill():
        for _ in range(s["passes"]):
            generator.standard_normal(out=out, dtype=np.float32)

    return fill, None


def ffht_transform(s):
    """Rows in place on one thread, the faster of two ways: the matrix in one call, where FFHT first copies each row onto
    itself, or (for long rows) one call per row, each with the overhead of a Python call."""
    np = need("numpy")
    ffht = need("ffht")
    x = gaussian(np, s["rows"], s["n"], 0)
    ways = [[x]] if s["n"] < 1024 else [[x], list(x)]

    def seconds(arrays):
        start = time.perf_counter()
        for _ in range(s["passes"]):
            for array in arrays:
                ffht.fht_(array)
        return time.perf_counter() - start

    def check():
        values = gaussian(np, 1, s["n"], 1)[0]
        exact = values.astype(np.float64)
        half = 1
        while half < s["n"]:
            a, b = exact.reshape(-1, 2, half).swapaxes(0, 1)
            exact = np.stack((a + b, a - b), axis=1).ravel()
            half *= 2
        ffht.fht_(values)
        return np.abs(values - exact).max()

    return (lambda: min(seconds(way) for way in ways)), check


def aihwkit_products(s):
    """Forward pass of a C++ inference tile: 8-bit inputs and outputs, fresh weight noise per product, output noise."""
    torch = need("torch")
    need("aihwkit")
    from aihwkit.nn import AnalogLinear
    from aihwkit.simulator.configs import InferenceRPUConfig
    from aihwkit.simulator.parameters import WeightNoiseType

    config = InferenceRPUConfig()
    config.forward.inp_res = config.forward.out_res = 1.0 / 254.0
    config.forward.out_noise = 0.02
    config.forward.w_noise = 0.02
    config.forward.w_noise_type = WeightNoiseType.ADDITIVE_CONSTANT
    layer = AnalogLinear(s["inputs"], s["outputs"], bias=False, rpu_config=config).eval()
    w = torch.randn(s["outputs"], s["inputs"])
    layer.set_weights(w, None)
    x = 0.3 * torch.randn(s["rows"], s["inputs"])

    @torch.no_grad()
    def products():
        return layer(x)

    def check():
        exact = x @ w.T
        return torch.linalg.norm(products() - exact) / torch.linalg.norm(exact)

    return products, check


def difference_from_ours(np, folder, y):
    """Largest difference from the outputs that the program wrote, relative to the largest output."""
    return np.abs(y - np.load(os.path.join(folder, "imka.npy"))).max() / np.abs(y).max()


def torch_encoder(s):
    """PyTorch's own encoder with random weights, on its fast path; exported for the others with an input."""
    np = need("numpy")
    torch = need("torch")
    torch.set_num_threads(s["threads"])
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(s["width"], s["heads"], s["hidden"], dropout=0.0, activation="gelu",
                                             batch_first=True)
    model = torch.nn.TransformerEncoder(layer, s["layers"], enable_nested_tensor=False).eval()
    for name, p in model.named_parameters():  # layers start as copies of the first
        if p.dim() == 2:
            torch.nn.init.xavier_uniform_(p)
        elif name.endswith("weight"):  # of a normalisation
            torch.nn.init.uniform_(p, 0.5, 1.5)
        else:
            torch.nn.init.uniform_(p, -0.1, 0.1)
    x = torch.randn(s["batch"], s["length"], s["width"])
    np.save(os.path.join(s["folder"], "x.npy"), x.numpy())
    torch.onnx.export(model, x, os.path.join(s["folder"], "model.onnx"), opset_version=17, input_names=["x"],
                      output_names=["y"])

    @torch.no_grad()
    def run():
        return model(x)

    return run, lambda: difference_from_ours(np, s["folder"], run().numpy())


def onnxruntime_encoder(s):
    np = need("numpy")
    onnxruntime = need("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = s["threads"]
    session = onnxruntime.InferenceSession(os.path.join(s["folder"], "model.onnx"), options,
                                           providers=["CPUExecutionProvider"])
    x = np.load(os.path.join(s["folder"], "x.npy"))

    def run():
        return session.run(None, {"x": x})[0]

    return run, lambda: difference_from_ours(np, s["folder"], run())


def attention_inputs(np, torch, s, device="cpu"):
    """Queries, keys, values (heads, length, d) and directions (m, d) that the program wrote."""
    torch.set_num_threads(s["threads"])
    return [torch.from_numpy(np.load(os.path.join(s["folder"], f"{name}.npy"))).to(device)
            for name in ("q", "k", "v", "omega")]


def favor(torch, d, omega):
    """FAVOR+ with exp(u) and exp(-u), written with tensor operations as in Performer libraries."""
    omega = omega.T.contiguous()

    def features(x, stabiliser_axes):
        x = x * d ** -0.25
        u = x @ omega
        exponent = torch.cat([u, -u], dim=-1) - (x * x).sum(dim=-1, keepdim=True) / 2
        return torch.exp(exponent - exponent.amax(dim=stabiliser_axes, keepdim=True))

    def attention(q, k, v):
        zq = features(q, -1)
        zk = features(k, (-1, -2))
        sums = zk.transpose(-1, -2) @ v
        return (zq @ sums) / (zq @ zk.sum(dim=-2)[..., None])

    return attention


def torch_favor(s):
    np = need("numpy")
    torch = need("torch")
    q, k, v, omega = attention_inputs(np, torch, s)
    attention = favor(torch, s["d"], omega)

    @torch.no_grad()
    def run():
        return attention(q, k, v)

    return run, lambda: difference_from_ours(np, s["folder"], run().numpy())


def torch_cuda_favor(s):
    np = need("numpy")
    torch = on_cuda(s)
    torch.backends.cuda.matmul.allow_tf32 = False
    q, k, v, omega = attention_inputs(np, torch, s, "cuda")
    attention = compiled(torch, favor(torch, s["d"], omega))

    @torch.no_grad()
    def run():
        y = attention(q, k, v)
        torch.cuda.synchronize()
        return y

    return run, lambda: difference_from_ours(np, s["folder"], run().cpu().numpy())


def torch_cuda_fused(s):
    """Exact attention in float32."""
    np = need("numpy")
    torch = on_cuda(s)
    torch.backends.cuda.matmul.allow_tf32 = False
    q, k, v, _ = (x[None] for x in attention_inputs(np, torch, s, "cuda"))

    @torch.no_grad()
    def run():
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        torch.cuda.synchronize()
        return y

    return run, lambda: difference_from_ours(np, s["folder"] + "/exact", run()[0].cpu().numpy())


def torch_exact(s):
    np = need("numpy")
    torch = need("torch")
    q, k, v, _ = attention_inputs(np, torch, s)

    @torch.no_grad()
    def run():
        return torch.softmax(q @ k.transpose(-1, -2) * s["d"] ** -0.5, dim=-1) @ v

    return run, lambda: difference_from_ours(np, s["folder"] + "/exact", run().numpy())


def torch_fused(s):
    np = need("numpy")
    torch = need("torch")
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        raise Missing("pip install torch (2.0 or later)")
    q, k, v, _ = (x[None] for x in attention_inputs(np, torch, s))

    @torch.no_grad()
    def run():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run, lambda: difference_from_ours(np, s["folder"] + "/exact", run()[0].numpy())


PEERS = {f.__name__: f for f in (sklearn_features, sklearn_ridge, torch_features, torch_ridge, numpy_product,
                                 numpy_normals, ffht_transform, aihwkit_products, torch_encoder,
                                 onnxruntime_encoder, torch_favor, torch_exact, torch_fused,
                                 torch_cuda_features, cupy_features, torch_cuda_ridge, torch_cuda_favor,
                                 torch_cuda_fused)}
prepared = {}


def prepare(name, sizes):
    key = (name, sizes)
    if key not in prepared:
        prepared[key] = PEERS[name](json.loads(sizes))
    return prepared[key]


def answer(line):
    command, _, rest = line.strip().partition(" ")
    if command == "hello":
        return hello()
    if command == "forget":
        prepared.clear()
        return "ok"
    name, _, sizes = rest.partition(" ")
    run, check = prepare(name, sizes)
    if command == "check":
        return repr(float(check()))
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    return repr(result if isinstance(result, float) else seconds)


def main():
    replies, sys.stdout = sys.stdout, sys.stderr  # libraries may print
    for line in sys.stdin:
        try:
            reply = answer(line)
        except Missing as package:
            reply = f"missing {package}"
        except Exception as problem:  # report every failure to the program
            reply = f"error {type(problem).__name__}: {problem}".replace("\n", " ")
        print(reply, file=replies, flush=True)


if __name__ == "__main__":
    main()
