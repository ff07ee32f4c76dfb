#!/usr/bin/env python3
"""Times one training step of imka and of the same Performer in PyTorch, on the same GPU, in turns.

    bench/train_step.py --program build/release/bench/train_step [--tasks cifar10 listops] [--json times.json]

imka's side is the program train_step (build target of the same name). PyTorch's side has the same layers, the same number
of parameters, bfloat16, dropout and AdamW with clipping, with torch.compile in its default mode and with
mode="reduce-overhead". Both train on random documents. In PyTorch Ω stays the same in all steps, which saves it some work.

Prints a table; --json writes all figures. Needs PyTorch 2 with CUDA.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

# Settings of experiments/lra. floors: least time in ms on an H200 for products, memory and exponentials.
TASKS = {
    "cifar10": dict(batch=128, length=1024, width=64, hidden=128, heads=2, layers=2, tied=False, vocabulary=0, classes=10,
                    classifier=128, activation="silu", dropout=0.0, clip=1.0, floors=(0.5, 0.4, 0.14)),
    "listops": dict(batch=256, length=2000, width=64, hidden=128, heads=2, layers=2, tied=True, vocabulary=16, classes=10,
                    classifier=128, activation="gelu", dropout=0.1, clip=0.5, floors=(1.8, 1.6, 0.6)),
    "imdb": dict(batch=128, length=4000, width=64, hidden=128, heads=2, layers=2, tied=False, vocabulary=257, classes=2,
                 classifier=128, activation="silu", dropout=0.1, clip=0.5, floors=(1.8, 1.6, 0.6)),
    "pathfinder32": dict(batch=256, length=1024, width=128, hidden=128, heads=8, layers=1, tied=False, vocabulary=0, classes=2,
                         classifier=256, activation="silu", dropout=0.0, clip=1.0, floors=(1.1, 0.7, 0.6)),
}
DIRECTIONS = 128
WARM_UP = 20


def make_model(torch, task):
    nn, functional = torch.nn, torch.nn.functional
    activation = {"gelu": functional.gelu, "silu": functional.silu}[task["activation"]]
    width, heads, size = task["width"], task["heads"], task["width"] // task["heads"]

    def features(x, omega, keys, mask):
        """exp(±Ωx - |x|²/2); a common factor is left out, as it cancels."""
        x = x * size ** -0.25
        u = x @ omega.T
        shift = u.detach().abs().amax(-1, keepdim=True)
        if not keys:
            return torch.cat([(u - shift).exp(), (-u - shift).exp()], -1)
        half = 0.5 * (x * x).sum(-1, keepdim=True)
        least = (shift - half.detach()).amax(-2, keepdim=True)
        f = torch.cat([(u - half - least).exp(), (-u - half - least).exp()], -1)
        return f if mask is None else f * mask[:, None, :, None]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.fc1 = nn.Linear(width, task["hidden"])
            self.fc2 = nn.Linear(task["hidden"], width)
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.drop = nn.Dropout(task["dropout"])

        def forward(self, x, omega, mask):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, heads, size).permute(2, 0, 3, 1, 4)
            fq = features(q, omega, False, mask).to(v.dtype)
            fk = features(k, omega, True, mask).to(v.dtype)
            sums = fk.transpose(-1, -2) @ v
            y = (fq @ sums) / (fq * fk.sum(-2, keepdim=True)).sum(-1, keepdim=True)
            y = y.transpose(1, 2).reshape(b, n, width)
            x = self.norm1(x + self.drop(self.out(y)))
            return self.norm2(x + self.drop(self.fc2(activation(self.fc1(x)))))

    class Performer(nn.Module):
        def __init__(self):
            super().__init__()
            table = task["vocabulary"] > 0
            self.table = nn.Embedding(task["vocabulary"], width) if table else None
            self.pixel = None if table else nn.Linear(1, width)
            self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(task["dropout"])
            self.layers = nn.ModuleList(Layer() for _ in range(1 if task["tied"] else task["layers"]))
            self.hidden = nn.Linear(width, task["classifier"])
            self.output = nn.Linear(task["classifier"], task["classes"], bias=False)
            self.register_buffer("positions", torch.randn(task["length"], width))
            self.register_buffer("omega", torch.randn(task["layers"], DIRECTIONS, size))

        def forward(self, tokens, lengths):
            mask = None if lengths is None else torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
            if self.table is not None:
                e = self.table(tokens.int() + 1)
            else:
                e = self.pixel((tokens.float() / 255 - 0.5).unsqueeze(-1) * 2)
            x = self.drop(self.norm(e * math.sqrt(width) + self.positions))
            for i in range(task["layers"]):
                x = self.layers[0 if task["tied"] else i](x, self.omega[i], mask)
            if mask is None:
                h = x.mean(1)
            else:
                h = (x * mask[..., None]).sum(1) / lengths[:, None]
            return self.output(functional.gelu(self.drop(self.hidden(h))))

    return Performer().cuda()


def time_pytorch(torch, task, mode, steps):
    """Milliseconds per step."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = make_model(torch, task)
    adam = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-4, device="cuda"), weight_decay=0.1, fused=True)
    symbols = task["vocabulary"] - 1 if task["vocabulary"] else 256
    tokens = torch.randint(0, symbols, (2 * task["batch"], task["length"]), device="cuda", dtype=torch.uint8)
    # Nearly the full length, as in train_step.
    lengths = None
    if task["vocabulary"]:
        lengths = task["length"] - torch.arange(task["batch"], device="cuda") % 2
    labels = torch.randint(0, task["classes"], (task["batch"],), device="cuda")

    def loss_of(tokens, lengths, labels):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens, lengths)
        return torch.nn.functional.cross_entropy(logits.float(), labels)

    compiled = torch.compile(loss_of, mode=None if mode == "default" else mode)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        batch = tokens[torch.randperm(2 * task["batch"], device="cuda")[:task["batch"]]]
        loss = compiled(batch, lengths, labels)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), task["clip"], foreach=True)
        adam.step()

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / steps


def time_imka(program, name, steps):
    out = subprocess.run([program, name, str(steps)], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr.strip())
    return json.loads(out.stdout)["ms_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the program train_step")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--steps", type=int, default=100, help="in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of imka, in turns with PyTorch")
    parser.add_argument("--json", help="write all figures to this file")
    args = parser.parse_args()
    import torch  # noqa: only with a GPU

    results = []
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; ms per step")
    print(f"{'task':<14}{'imka':>8}{'compile':>9}{'ratio':>7}{'reduce':>9}{'ratio':>7}   floors: products, memory, exponentials")
    for name in args.tasks:
        task = TASKS[name]
        ours, theirs = [], {"default": [], "reduce-overhead": []}
        for mode, times in theirs.items():
            ours.append(time_imka(args.program, name, args.steps))
            times.append(time_pytorch(torch, task, mode, args.steps))
        while len(ours) < args.rounds:
            ours.append(time_imka(args.program, name, args.steps))
        best = statistics.median(ours)
        row = {"task": name, "imka_ms": ours, "compile_ms": theirs["default"], "reduce_overhead_ms": theirs["reduce-overhead"],
               "ratio_compile": theirs["default"][0] / best, "ratio_reduce_overhead": theirs["reduce-overhead"][0] / best,
               "floors_ms": task["floors"], "times_of_largest_floor": best / max(task["floors"])}
        results.append(row)
        floors = " / ".join(f"{f:g}" for f in task["floors"])
        print(f"{name:<14}{best:8.2f}{theirs['default'][0]:9.2f}{row['ratio_compile']:7.2f}{theirs['reduce-overhead'][0]:9.2f}"
              f"{row['ratio_reduce_overhead']:7.2f}   {floors} ms; {row['times_of_largest_floor']:.1f} x the largest", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"pytorch": torch.__version__, "gpu": torch.cuda.get_device_name(), "steps": args.steps,
                       "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
