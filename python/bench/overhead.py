#!/usr/bin/env python3
"""Cost of calling the feature map through Python: RandomFeatures.transform against the same call in C++.

Both run in turns in one process at n = 50,000, d = 22, D = 1408. Prints wall time and processor time (of all threads;
steadier on a busy machine). Exit code 1 if Python costs more than 5 % by both.
"""
import sys
import time

import numpy as np

import imka
from imka._exec import make_exec

ROUNDS = 20
LIMIT = 1.05


def measured(call):
    """Wall time and processor time of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main():
    x = np.random.default_rng(0).normal(size=(50000, 22)).astype(np.float32)
    features = imka.RandomFeatures(gamma=0.05, n_components=1408).fit(x)
    calls = {
        "Python": lambda: features.transform(x),
        "C++": lambda: features._fitted.transform_only(x, make_exec()),
    }
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(measured(call))
    ratios = []
    for i, kind in enumerate(("wall time", "processor time")):
        python, cpp = (np.array([t[i] for t in times[name]]) for name in calls)
        ratios.append(python.min() / cpp.min())
        low, middle, high = np.percentile(python / cpp, [25, 50, 75])
        print(f"{kind:15} Python {python.min():.4f} s, C++ {cpp.min():.4f} s, ratio {ratios[-1]:.3f} (best of {ROUNDS}); "
              f"of single rounds {middle:.3f} ({low:.3f} to {high:.3f}: median and quartiles)")
    return 0 if min(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
