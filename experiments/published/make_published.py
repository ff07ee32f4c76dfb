#!/usr/bin/env python3
"""Writes ridge.csv and liu.csv from the released per-seed results: mean, standard deviation (n - 1) and
number of seeds per cell.

    experiments/published/make_published.py measured.csv

Both backends, fp32 and hermes (the chip); accuracy and Gram error as fractions.
"""
import csv
import pathlib
import statistics
import sys

METRICS = {"acc": "accuracy", "err": "gram_error"}
LIU = "-liu-replication"


def cells(path):
    values = {}
    with open(path, newline="", encoding="ascii") as file:
        for row in csv.DictReader(file):
            if row["dataset"] == "attention":
                continue
            key = (row["dataset"], row["kernel"], row["sampler"], row["backend"], row["log_ratio"], row["m"],
                   METRICS[row["metric"]])
            values.setdefault(key, []).append(float(row["value"]))
    return values


def write(path, rows):
    with open(path, "w", newline="", encoding="ascii") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["dataset", "kernel", "sampler", "backend", "log_ratio", "m", "metric", "mean", "std", "n"])
        for key, v in rows:
            out.writerow([*key, f"{statistics.fmean(v):.8g}", f"{statistics.stdev(v):.6g}", len(v)])


def main():
    here = pathlib.Path(__file__).parent
    all_cells = sorted(cells(sys.argv[1]).items())
    write(here / "ridge.csv", [(k, v) for k, v in all_cells if LIU not in k[0]])
    write(here / "liu.csv", [((k[0].replace(LIU, ""), *k[1:]), v) for k, v in all_cells if LIU in k[0]])


if __name__ == "__main__":
    main()
