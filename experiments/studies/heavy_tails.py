#!/usr/bin/env python3
"""RBF error on the chip against the tails of the inputs, with the formula of the product limit beside it.

Inputs are Student-t with nu degrees of freedom, standardised. For each nu the script measures the Gram error with orf
directions in FP32, on the chip without its product limit, and on the chip with it. What the limit adds is compared with

  error² = sum_ij (c_i c_j - p_i p_j)² / sum_ij K_ij²,   p = exp(-s² rho² / 2),   c = E cos(clip(s rho z, kappa s R))

where x has d inputs, rho = |x| / sqrt(d), s² = 2 gamma d, z is standard normal, kappa is core.product_limit and R is the
root mean square of the inputs. It takes features of different rows as independent, so it is a bound on the size, not
exact.

  python3 experiments/studies/heavy_tails.py build/release/imka
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile

GAMMA = 0.05
TRAIN, TEST = 2000, 600


def student_rows(nu, d, count, rng):
    """Standardised Student-t inputs; nu = inf: Gaussian."""
    rows = []
    for _ in range(count):
        row = []
        for _ in range(d):
            z = rng.gauss(0, 1)
            row.append(z if math.isinf(nu) else z / math.sqrt(rng.gammavariate(nu / 2, 2) / nu))
        rows.append(row)
    return rows


def standardised(rows):
    d = len(rows[0])
    mean = [statistics.fmean(r[j] for r in rows) for j in range(d)]
    sd = [statistics.pstdev(r[j] for r in rows) for j in range(d)]
    return [[(r[j] - mean[j]) / sd[j] for j in range(d)] for r in rows]


def write_csv(path, rows):
    path.write_text("".join(",".join(f"{v:.7g}" for v in r) + f",{i % 2}\n" for i, r in enumerate(rows)))


def gram_error(args, folder, backend):
    command = [args.imka, "gram", "--dataset", f"{folder}/train.csv:{folder}/test.csv", "--protocol", "measured",
               "--kernel", "rbf", "--gamma", str(GAMMA), "--sampler", "orf", "--log-ratio", "5", "--gram-rows", str(TEST),
               "--seeds", f"0..{args.seeds - 1}", "--json", "--quiet"] + backend
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["gram_error"]["mean"]


def limit_formula(test, kappa, spread):
    d = len(test[0])
    s = math.sqrt(2 * GAMMA * d)
    nodes = [(-8 + 16 * (i + 0.5) / 400) for i in range(400)]
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * 16 / 400 for z in nodes]
    bound = kappa * s * spread
    sample = test[:250]
    exact, limited = [], []
    for x in sample:
        rho = math.sqrt(sum(v * v for v in x) / d)
        exact.append(math.exp(-s * s * rho * rho / 2))
        limited.append(sum(w * math.cos(max(-bound, min(bound, s * rho * z))) for z, w in zip(nodes, density)))
    error = norm = 0.0
    for i, x in enumerate(sample):
        for j, y in enumerate(sample):
            error += (limited[i] * limited[j] - exact[i] * exact[j]) ** 2
            norm += math.exp(-2 * GAMMA * sum((a - b) ** 2 for a, b in zip(x, y)))
    return math.sqrt(error / norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imka")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    info = json.loads(subprocess.run([args.imka, "chip", "info", "hermes", "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    kappa = next(float(c["value"]) for c in info["constants"] if c["name"] == "core.product_limit")
    print(f"core.product_limit {kappa:g}, gamma {GAMMA}, r = 5, orf, {args.seeds} seeds")
    print("  d    nu    FP32   chip without limit   chip   added by the limit   formula")
    for d in (3, 8, 16):
        for nu in (math.inf, 10, 6, 4, 3):
            rng = random.Random(f"{d} {nu}")
            rows = standardised(student_rows(nu, d, TRAIN + TEST, rng))
            train, test = rows[:TRAIN], rows[TRAIN:]
            with tempfile.TemporaryDirectory() as folder:
                write_csv(pathlib.Path(folder) / "train.csv", train)
                write_csv(pathlib.Path(folder) / "test.csv", test)
                fp32 = gram_error(args, folder, [])
                off = gram_error(args, folder, ["--backend", "hermes", "--chip-set", "core.product_limit=0"])
                on = gram_error(args, folder, ["--backend", "hermes"])
            added = math.copysign(math.sqrt(abs(on * on - off * off)), on - off)
            spread = math.sqrt(statistics.fmean(v * v for r in train for v in r))
            name = "inf" if math.isinf(nu) else str(nu)
            print(f"{d:3d} {name:>5} {fp32:7.4f} {off:20.4f} {on:6.4f} {added:20.4f} {limit_formula(test, kappa, spread):9.4f}")


if __name__ == "__main__":
    main()
