"""Small valid files of every format the program reads, and ways to damage them."""

import bz2
import gzip
import lzma
import pathlib
import random
import struct
import subprocess

ROWS, COLUMNS = 60, 4
ESCAPE = "a\x1b]0;title\x07\x1b[31mred"
HOSTILE_LABELS = ["plain", "a,b", 'say "no"', " led", ESCAPE, "=1+1", "\u009b31m", "<b>x</b>"]


def table(seed):
    rng = random.Random(seed)
    return [[rng.gauss(0, 1) for _ in range(COLUMNS)] for _ in range(ROWS)]


def csv_text(rows, labels):
    head = ",".join(f"f{c}" for c in range(COLUMNS)) + ",label\n"
    return head + "".join(",".join(f"{v:.6g}" for v in row) + f",{label}\n" for row, label in zip(rows, labels))


def libsvm_text(rows, labels):
    return "".join(
        f"{label} " + " ".join(f"{c + 1}:{v:.6g}" for c, v in enumerate(row)) + "\n" for row, label in zip(rows, labels)
    )


def arff_text(rows, labels):
    head = "@relation r\n" + "".join(f"@attribute f{c} numeric\n" for c in range(COLUMNS))
    return (
        head
        + "@attribute class {a,b}\n@data\n"
        + "".join(",".join(f"{v:.6g}" for v in row) + f",{label}\n" for row, label in zip(rows, labels))
    )


def npy_header(shape, descr="<f4", order="False"):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def npy_bytes(rows, shape=None, **more):
    return npy_header(shape or f"({len(rows)}, {len(rows[0])})", **more) + b"".join(
        struct.pack(f"<{len(row)}f", *row) for row in rows
    )


def zstd_bytes(data):
    """One frame with one raw block: the standard library cannot compress zstd."""
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + struct.pack("<I", len(data) << 3 | 1)[:3] + data


def quoted(label):
    return '"' + label.replace('"', '""') + '"'


EXPERIMENT = """name: tiny
base: {dataset: ringnorm, gram_rows: 20}
grid:
  log_ratio: [0]
  kernel: [rbf, arccos0]
  seeds: 0..1
"""
# Runs that measured.csv has results for.
CHIP_EXPERIMENT = """name: tiny_chip
base: {dataset: ringnorm, backend: hermes, sampler: orf, gram_rows: 20}
grid:
  log_ratio: [0]
  kernel: [rbf]
  seeds: 0..2
"""
SETTINGS = "kernel: rbf\ngamma: 0.1\nsampler: orf\n"
MEASURED_HEAD = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n"


def make(imka, folder):
    """Writes every sample into the folder; name of the format -> file name."""
    rows, labels = table(1), ["a" if i % 2 else "b" for i in range(ROWS)]
    numbers = ["1" if i % 2 else "-1" for i in range(ROWS)]
    text = {
        "a.csv": csv_text(rows, labels),
        "a.libsvm": libsvm_text(rows, numbers),
        "a.arff": arff_text(rows, labels),
        "tiny.yaml": EXPERIMENT,
        "tiny_chip.yaml": CHIP_EXPERIMENT,
        "settings.yaml": SETTINGS,
        "pairs.csv": "target,read\n" + "".join(f"{i % 20},{i % 20 + 0.01 * (i * 37 % 11)}\n" for i in range(200)),
        "hostile.csv": csv_text(rows, [quoted(HOSTILE_LABELS[i % len(HOSTILE_LABELS)]) for i in range(ROWS)]),
        "measured.csv": MEASURED_HEAD
        + "".join(
            f"ringnorm,rbf,orf,0,1,20,{s},hermes,{m},{v + 0.01 * s}\n"
            for s in range(3)
            for m, v in (("acc", 0.9), ("err", 0.4))
        ),
        "numeric_header.csv": "2019,2020,outcome\n" + "".join(f"{i},{i * 7 % 5},{'yn'[i % 2]}\n" for i in range(1, 40)),
        "missing_values.csv": "a,b,label\n1,NA,x\n2,?,y\n3,,x\n4,5,y\n",
        "one_class.csv": csv_text(rows, ["a"] * ROWS),
        "constant.csv": csv_text([[1.0] * COLUMNS] * ROWS, labels),
        "huge_values.csv": csv_text([[3e38 * v / abs(v) for v in row] for row in rows], labels),
        "tiny_values.csv": csv_text([[1e-38 * v for v in row] for row in rows], labels),
        "one_row.csv": csv_text(rows[:1], labels),
    }
    for name, content in text.items():
        (folder / name).write_text(content)
    (folder / "a.npy").write_bytes(npy_bytes(rows))
    # Queries, keys and values of two sequences.
    (folder / "qkv.npy").write_bytes(npy_bytes(rows, f"(2, 3, {ROWS // 6}, {COLUMNS})"))
    (folder / "w.npy").write_bytes(npy_bytes([row * 2 for row in rows[:8]]))
    (folder / "x.npy").write_bytes(npy_bytes([row * 2 for row in rows]))
    plain = text["a.csv"].encode()
    for end, packed in (
        ("gz", gzip.compress(plain, mtime=0)),
        ("xz", lzma.compress(plain)),
        ("bz2", bz2.compress(plain)),
        ("zst", zstd_bytes(plain)),
    ):
        (folder / f"a.csv.{end}").write_bytes(packed)
    # About 1 GB of zeros in 1 MB.
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"0" * (1 << 20), mtime=0) * 1000)
    models = pathlib.Path(__file__).resolve().parents[1] / "models"
    (folder / "model.onnx").write_bytes((models / "mlp_opset17.onnx").read_bytes())
    (folder / "performer.safetensors").write_bytes(pathlib.Path(__file__).with_name("performer_tiny.safetensors").read_bytes())
    made = [
        ["ridge", "--dataset", "in/a.csv", "--n-components", "16", "--save", "in/model.imka"],
        ["ridge", "--dataset", "in/hostile.csv", "--n-components", "16", "--save", "in/hostile.imka"],
        [
            "chip",
            "program",
            "--rows",
            "8",
            "--cols",
            "8",
            "--inputs",
            "20",
            "--methods",
            "verify",
            "--output",
            "in/chip.imka",
        ],
        ["chip", "fit", "in/pairs.csv", "--output", "in/chip.yaml"],
        ["sweep", "in/tiny.yaml", "--output", "in/runs"],
    ]
    for args in made:
        subprocess.run([imka, *args, "--quiet"], cwd=folder.parent, check=True, capture_output=True, timeout=60)
    records = b"".join(p.read_bytes() for p in sorted((folder / "runs" / "records").iterdir()))
    (folder / "records.jsonl").write_bytes(records)
    hostile = records.replace(b'"error":""', b'"error":"\\u001b[31mred\\u0007"').replace(
        b'"results":{', b'"results":{"x":1e999,'
    )
    (folder / "hostile_records.jsonl").write_bytes(hostile)
    chip = (folder / "chip.yaml").read_text()
    lines = ['name: "a\\e]0;x\\a\\e[31mred"' if line.startswith("name:") else line for line in chip.splitlines()]
    (folder / "hostile_chip.yaml").write_text("\n".join(lines) + "\n")
    (folder / "folder.csv").mkdir()
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "unreadable.csv").write_text(text["a.csv"])
    (folder / "unreadable.csv").chmod(0)


def flipped(data, rng, count):
    out = bytearray(data)
    for _ in range(count):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def damaged(data, name, rng):
    """The name of each kind of damage, and the damaged bytes."""
    size = len(data)
    for where, at in (("1", 1), ("10%", size // 10), ("50%", size // 2), ("90%", size * 9 // 10), ("last", size - 1)):
        yield f"cut_{where}", data[:at]
    yield "empty", b""
    for i in range(3):
        yield f"flip_{i}", flipped(data, rng, 1)
    yield "flip_many", flipped(data, rng, max(2, size // 50))
    yield "random", rng.randbytes(size)
    yield "zeros", bytes(size)
    yield "doubled", data + data
    yield "long_line", b"9" * 3_000_000
    yield "control", ESCAPE.encode() * 3 + data
    yield "not_utf8", b"\xff\xfe\x9b31m" + data
    if name.endswith((".imka", ".safetensors")):
        for length in (0, 1 << 24, (1 << 63) - 1, (1 << 64) - 1):
            yield f"header_{length:x}", struct.pack("<Q", length) + data[8:]
        yield "huge_shape", data.replace(b'"shape":[', b'"shape":[4294967295,', 1)
    if name.endswith(".npy"):
        rows = table(1)
        for shape in (
            "(9223372036854775807, 4)",
            "(4294967296, 4294967296)",
            "(0, 4)",
            "(60, 0)",
            "(-1, 4)",
            "(240,)",
            "(60, 4, 1)",
            "()",
        ):
            yield f"shape{shape.replace(' ', '')}", npy_bytes(rows, shape)
        for descr in (">f4", "|O", "<c8", "<f2", "|S4"):
            yield f"type{descr}", npy_bytes(rows, descr=descr)
        yield "fortran", npy_bytes(rows, order="True")
        for value in ("nan", "inf"):
            yield value, npy_bytes([[float(value)] * COLUMNS] * ROWS)
    if name.endswith((".csv", ".libsvm", ".arff", ".jsonl")):
        first = data.find(b"\n") + 1
        for value in (b"nan", b"inf", b"1e999", b"-", b"0x10", b"1,5"):
            yield f"value_{value.decode()}", data.replace(b"0.", value, 3)
        yield "header_only", data[:first]
        yield "ragged", data + b"1\n"
        yield "nul", data[:first] + b"\0" + data[first:]
        yield "quote", data[:first] + b'"' + data[first:]
    if name.endswith(".libsvm"):
        for pair in (b"0:1", b"2147483647:1", b"99999999999999999999:1", b"3:1 2:1", b"qid:1", b"1:", b":1"):
            yield f"pair_{pair.decode().replace(' ', '_')}", b"1 " + pair + b"\n" + data
    if name.endswith((".yaml", ".jsonl")):
        yield "unknown_key", b"unknown: 1\n" + data
        yield "deep", b"[" * 100_000
        yield "alias", b"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\n" + data
        yield "two_documents", data + b"---\n" + data
        yield "tab", b"\t" + data
        yield "null", b"null\n"
        yield "list", b"[1, 2]\n"
        for value in (b"nan", b".inf", b"-1", b"1e300", b"18446744073709551616", b'"\\e[31m"', b"[]", b"{}", b"~"):
            yield f"all_{value.decode()}", b"\n".join(
                line.split(b":")[0] + b": " + value if b": " in line else line for line in data.split(b"\n")
            )
