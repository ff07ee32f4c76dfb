#!/usr/bin/env python3
"""Which random split of eeg the measured chip runs used.

The runs shared one unknown split. Half of the rows train; four of all rows are sensor outliers, which dominate the
standard deviation and so the input range. For every candidate split this script emulates the measured runs on eeg and
prints chi² of Gram errors and accuracies, best first. The choice uses the measurements: the experiment fidelity says so,
and fidelity_blind does without it.

  python3 experiments/studies/eeg_split.py build/release/imka --measured measured.csv --data-dir data
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

EXPERIMENT = """name: eeg-split
kind: ridge
base: {{protocol: measured, backend: hermes, gamma: 0.05, alpha: 0.5, gram_rows: 1000, dataset: eeg, input_alpha: 2,
       split_seed: {split}}}
grid:
  kernel: [rbf, arccos0]
  sampler: [rff, orf, sorf]
  log_ratio: [3, 4, 5]
  seeds: 0..1
"""


def compare(args, split, folder):
    path = pathlib.Path(folder) / "e.yaml"
    path.write_text(EXPERIMENT.format(split=split))
    command = [args.imka, "chip", "fit", "--measured", args.measured, "--experiment", str(path), "--datasets", "eeg",
               "--test-rows", str(args.test_rows), "--json", "--quiet"]
    if args.data_dir:
        command += ["--data-dir", args.data_dir]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rms = {s["kernel"]: s["rms_ln"] for s in result["scores"] if s["dataset"] == "eeg"}
    accuracy = [c["accuracy"]["emulated"] - c["accuracy"]["measured"] for c in result["cells"]]
    return {"split": split, "chi2": result["chi2"], "rbf": rms["rbf"], "arccos0": rms["arccos0"],
            "accuracy": 100 * sum(accuracy) / len(accuracy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imka")
    parser.add_argument("--measured", required=True)
    parser.add_argument("--data-dir")
    parser.add_argument("--splits", type=int, default=140)
    parser.add_argument("--test-rows", type=int, default=2000)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for split in range(args.splits):
            rows.append(compare(args, split, folder))
            print(f"\r{split + 1} of {args.splits} splits", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("split   chi²   rms ln rbf   rms ln arccos0   accuracy, emulated - measured")
    for r in sorted(rows, key=lambda r: r["chi2"]):
        print(f"{r['split']:5d} {r['chi2']:6.1f} {r['rbf']:12.3f} {r['arccos0']:16.3f} {r['accuracy']:+12.2f} points")


if __name__ == "__main__":
    main()
