#!/usr/bin/env python3
"""Results that must not change: runs imka over kernels, samplers, chips, batch sizes and threads.

  outputs.py IMKA --check    compares with outputs.json; exit code 1 on a difference
  outputs.py IMKA --write    writes outputs.json

On the kind of processor that outputs.json was written on (same instruction set, same BLAS core) every number must
agree in all digits. Elsewhere sums round differently: numbers must agree within TOLERANCE.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).with_name("outputs.json")
TOLERANCE = 2e-3
KERNELS = "rbf laplace matern32 matern52 arccos0 arccos1 arccos2 softmax".split()
SAMPLERS = "rff orf sorf".split()
CHIPS = "ideal hermes hermes-published hermes-od hermes-afm pcm-like rram-wan".split()


def cases():
    """Name and arguments of every case; {x} is an input file, {z} the output file."""
    out = {}

    def add(name, args):
        assert name not in out, name
        out[name] = args.split()

    small = "--dataset ringnorm --log-ratio 1 --gram-rows 150"
    for kernel in KERNELS:
        for sampler in SAMPLERS:
            add(f"gram/{kernel}/{sampler}", f"gram {small} --kernel {kernel} --sampler {sampler} --seeds 0..1")
    for chip in CHIPS:
        for kernel in ("rbf", "arccos0", "softmax"):
            for sampler in SAMPLERS:
                add(f"gram/{kernel}/{sampler}/{chip}",
                    f"gram {small} --kernel {kernel} --sampler {sampler} --backend {chip} --seed 3")
    add("gram/measured", "gram --dataset twonorm --kernel rbf --sampler orf --protocol measured --log-ratio 2 --seeds 0..2")
    add("gram/norms", "gram --dataset waveform --kernel rbf --sampler orf --norms sqrt --truncation 2.5 --seeds 0..2")
    add("gram/offset", "gram --dataset waveform --kernel laplace --form offset_cos --sampler rff --seeds 0..2")
    for kernel in ("rbf", "arccos1"):
        for sampler in SAMPLERS:
            add(f"ridge/{kernel}/{sampler}", f"ridge --dataset ringnorm --kernel {kernel} --sampler {sampler} "
                "--log-ratio 2 --gram-rows 100 --seeds 0..1")
    ridge = "ridge --dataset twonorm --log-ratio 1 --gram-rows 100 --seeds 0..1 --backend"
    for chip in ("hermes", "rram-wan"):
        add(f"ridge/{chip}", f"{ridge} {chip}")
        add(f"ridge/{chip}/fit_on_chip", f"{ridge} {chip} --fit-on chip")
        add(f"ridge/{chip}/fit_on_chips", f"{ridge} {chip} --fit-on chips --fit-draws 2")
        for compensation in ("none", "global", "column", "outputs"):
            add(f"ridge/{chip}/aged/{compensation}", f"{ridge} {chip} --read-seconds 86400 --compensation {compensation}")
    add("ridge/alpha", "ridge --dataset waveform --n-components 100 --alpha 2 --intercept none --seeds 5")
    add("ridge/mitigated", f"{ridge} hermes --output-calibration centred --replicas 3 --replication average --range-scaling true")
    add("ridge/replicas", f"{ridge} hermes --replicas 3 --lost-rows 10")
    add("ridge/pulses", f"{ridge} hermes --programming verify --chip-seed 9")
    add("ridge/alpha_clip", f"{ridge} hermes --input-alpha 2.5 --chip-set core.adc_noise=2")
    for rows in (1, 7, 255, 256, 300):
        for backend in ("fp32", "hermes"):
            for sampler in ("orf", "sorf"):
                add(f"features/{rows}/{backend}/{sampler}",
                    f"features --input {{x{rows}}} --label-column none --output {{z}} --kernel rbf --gamma 0.05 "
                    f"--sampler {sampler} --n-components 320 --seed 4 --backend {backend}")
    for kernel in ("arccos0", "softmax"):
        for chip in ("fp32", "hermes-published"):
            add(f"features/{kernel}/{chip}", f"features --input {{x300}} --label-column none --output {{z}} "
                f"--kernel {kernel} --standardize --sampler rff --n-components 640 --backend {chip}")
    for chip in CHIPS:
        add(f"mvm/{chip}", f"chip mvm --chip {chip} --rows 70 --cols 60 --inputs 120 --time 1h --compensation global --seeds 0..1")
    add("mvm/literal", "chip mvm --rows 40 --cols 30 --inputs 60 --simulator literal --seeds 0..1")
    add("mvm/large", "chip mvm --rows 600 --cols 300 --inputs 40 --seeds 2")
    add("mvm/replicas", "chip mvm --rows 50 --cols 40 --inputs 90 --replicas 3 --replication average --seeds 2")
    add("program/all", "chip program --rows 24 --cols 20 --iterations 8 --draws 2")
    add("program/large", "chip program --rows 300 --cols 20 --methods statistical,verify,max_set_fill")
    add("explain", "chip explain --rows 40 --cols 40 --inputs 60 --seeds 0..1")
    return out


def write_inputs(folder, rows):
    path = folder / f"x{rows}.csv"
    with open(path, "w") as f:
        for r in range(rows):
            f.write(",".join(f"{((r * 7919 + c * 104729 + r * c * 31) % 2001 - 1000) / 400:.4f}" for c in range(20)) + "\n")
    return path


def summary_of_npy(path):
    """Shape, a few values, sum and hash of a float32 file."""
    data = path.read_bytes()
    header = struct.unpack("<H", data[8:10])[0]
    values = data[10 + header:]
    floats = struct.unpack(f"<{len(values) // 4}f", values)
    return {"shape": data[10:10 + header].decode().split("'shape':")[1].split(")")[0].strip() + ")",
            "sum": sum(floats), "values": list(floats[:: max(1, len(floats) // 16)]),
            "sha256": hashlib.sha256(values).hexdigest()}


def kept(value):
    """The value without text: names, messages and hashes of settings may change while results stay the same."""
    if isinstance(value, dict):
        return {k: kept(v) for k, v in value.items() if not isinstance(v, str)}
    if isinstance(value, list):
        return [kept(v) for v in value]
    return value


def run(imka, folder, name, args, threads):
    z = folder / (name.replace("/", "_") + f".{threads}.npy")
    filled = [a if not a.startswith("{") else str(z if a == "{z}" else folder / (a[1:-1] + ".csv")) for a in args]
    done = subprocess.run([imka, *filled, "--json", "--quiet", "--threads", str(threads)], capture_output=True, text=True)
    if done.returncode != 0:
        return {"exit": done.returncode}
    result = kept(json.loads(done.stdout))
    if z.exists():
        result["file"] = summary_of_npy(z)
    return result


def differences(want, got, exact, where=""):
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(set(want) | set(got)):
            # The hash of rounded numbers, and the ratio of a signal to rounding errors, differ between processors.
            if key in ("sha256", "snr_db") and not exact:
                continue
            if key not in want or key not in got:
                yield f"{where}/{key}: only {'expected' if key in want else 'printed'}"
            else:
                yield from differences(want[key], got[key], exact, f"{where}/{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (a, b) in enumerate(zip(want, got)):
            yield from differences(a, b, exact, f"{where}/{i}")
    elif isinstance(want, float) or isinstance(got, float):
        near = not exact and abs(want - got) <= TOLERANCE * (1 + abs(want))
        if want != got and not near:
            yield f"{where}: expected {want!r}, printed {got!r}"
    elif want != got:
        yield f"{where}: expected {want!r}, printed {got!r}"


def machine(imka):
    facts = json.loads(subprocess.run([imka, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    return {"instruction_sets": facts["instruction_sets"], "blas": facts["blas"]}


def main():
    # Makes OpenBLAS use the same kernels on every processor with AVX2.
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    imka, mode = os.path.abspath(sys.argv[1]), sys.argv[2]
    todo = cases()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for rows in (1, 7, 255, 256, 300):
            write_inputs(folder, rows)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = {t: dict(zip(todo, pool.map(lambda n: run(imka, folder, n, todo[n], t), todo)))
                       for t in ((1, 2) if mode == "--write" else (2,))}
    problems = []
    for name in todo if 1 in results else ():
        problems += [f"{name}: 1 and 2 threads: {d}" for d in differences(results[1][name], results[2][name], True)]
    if mode == "--write":
        GOLDEN.write_text(json.dumps({"machine": machine(imka), "results": results[2]}, indent=0, sort_keys=True) + "\n")
    else:
        golden = json.loads(GOLDEN.read_text())
        exact = golden["machine"] == machine(imka)
        print(f"{len(todo)} cases, compared {'exactly' if exact else f'within {TOLERANCE} on another processor'}")
        for name in sorted(set(todo) | set(golden["results"])):
            want, got = golden["results"].get(name), results[2].get(name)
            problems += [f"{name}{d}" for d in differences(want, got, exact)]
    print("\n".join(problems[:40]))
    print(f"{len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
