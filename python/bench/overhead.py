#!/usr/bin/env python3
"""Cost of calling the feature map through Python: RandomFeatures.transform against the same call in C++.

Both run in turns in one process at n = 50,000, d = 22, D = 1408. Exit code 1 if the median ratio is above 1.05.
"""
import statistics
import sys
import time

import numpy as np

import imka
from imka._exec import make_exec

ROUNDS = 15
LIMIT = 1.05


def main():
    x = np.random.default_rng(0).normal(size=(50000, 22)).astype(np.float32)
    features = imka.RandomFeatures(gamma=0.05, n_components=1408).fit(x)
    times = {"Python": [], "C++": []}
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        features.transform(x)
        times["Python"].append(time.perf_counter() - begin)
        times["C++"].append(features._fitted.time_transform(x, make_exec()))
    for name, seconds in times.items():
        print(f"{name:6} best {min(seconds):.4f} s, median {statistics.median(seconds):.4f} s")
    best = min(times["Python"]) / min(times["C++"])
    median = statistics.median(p / c for p, c in zip(times["Python"], times["C++"]))
    print(f"ratio of the best times {best:.3f}, median ratio {median:.3f}; at most {LIMIT}")
    return 0 if min(best, median) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
