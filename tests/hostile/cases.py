"""Bad inputs for every verb and option. Options and types come from the program; only valid commands are listed here."""

import csv
import os
import re
import signal
import struct

import samples
from runner import NOBODY, Case

USAGE = frozenset({2})
REFUSED = frozenset({2, 3, 4})  # an input that is certainly bad
ANY = frozenset({0, 2, 3, 4})  # an input that may be valid
ALWAYS = frozenset({0, 1, 2, 3, 4})
INTERRUPTED = frozenset({130})

PRODUCT = "--rows 8 --cols 8 --inputs 20 --calibration-inputs 50"
# Valid commands, positional arguments first. An option is tested on the first one that accepts a valid value of it.
BASES = {
    "data list": [""],
    "data info": ["ringnorm"],
    "data show": ["ringnorm --rows 2", "in/a.csv", "--task tiny --count 2", "--task tiny --statistics"],
    # Port 9 of this machine: no test uses the network.
    "data fetch": ["magic --base-url http://127.0.0.1:9 --retries 0 --data-dir data"],
    "data verify": ["--data-dir data"],
    "data export": ["ringnorm --train-rows 20 --output o.csv", "in/a.csv --output o.csv"],
    "data generate": ["ringnorm --rows 20 --output o.csv"],
    "features": [
        "--input in/a.csv --output z.npy --n-components 16",
        "--input in/a.libsvm --output z.npy --n-components 16",
        "--input in/a.csv --output z.npy --n-components 16 --backend hermes",
        "--input in/a.csv --output z.npy --log-ratio 0",
    ],
    "gram": [
        "--dataset ringnorm --log-ratio 0 --gram-rows 20",
        "--dataset in/a.csv --log-ratio 0",
        "--dataset in/a.libsvm --log-ratio 0",
        "--dataset ringnorm --log-ratio 0 --gram-rows 20 --backend hermes",
    ],
    "ridge": [
        "--dataset ringnorm --log-ratio 0 --gram-rows 20",
        "--dataset in/a.csv --log-ratio 0",
        "--dataset in/a.libsvm --log-ratio 0",
        "--dataset ringnorm --log-ratio 0 --gram-rows 0 --backend hermes",
        "--load in/model.imka --predict in/a.csv --output p.csv",
    ],
    "attention": [
        "--length 20 --head-dim 4 --n-directions 8",
        "--dataset in/qkv.npy --n-directions 8",
        "--length 20 --head-dim 4 --n-directions 8 --backend hermes",
    ],
    "train": ["--task tiny --dry-run", "--task tiny --set steps=2 --set batch=4 --set validation_examples=8 --output runs"],
    "eval": [
        "--checkpoint in/performer.safetensors --samples 20",
        "--checkpoint in/performer.safetensors --samples 20 --mode all --calibration-examples 20",
        "--checkpoint in/performer.safetensors --samples 20 --dump-qkv o.npy",
    ],
    "sweep": ["in/tiny.yaml --output runs"],
    "report": ["in/records.jsonl", "in/records.jsonl --output page.html"],
    "reproduce": ["liu --check --output runs"],
    "validate": ["--measured in/measured.csv"],
    "chip info": ["hermes", ""],
    "chip mvm": [f"{PRODUCT} --seed 0", "--load in/chip.imka --inputs 20 --calibration-inputs 50 --seed 0"],
    "chip age": [
        f"{PRODUCT} --seed 0 --times 1h",
        "--load in/chip.imka --inputs 20 --calibration-inputs 50 --seed 0 --times 1h",
    ],
    "chip explain": [f"{PRODUCT} --seed 0", "--dataset ringnorm --log-ratio 0 --gram-rows 20 --seed 0"],
    "chip program": [f"{PRODUCT} --iterations 2"],
    "chip fit": ["in/pairs.csv", "--measured in/measured.csv --experiment in/tiny_chip.yaml --no-leave-out"],
    "run": ["in/model.onnx"],
    "map": ["--shapes 64x64,300x70", "--network ks"],
    "cost": ["--shapes 64x64,300x70", "--network ks"],
    "deploy": ["in/model.onnx", "--shapes 64x64,300x70"],
    "chip signatures": [
        "--measured in/measured.csv --experiment in/tiny_chip.yaml --candidate limit:core.product_limit=3"
    ],
    "bench": ["normals --quick --rounds 1"],
    "doctor": [""],
    "completion": ["bash"],
}
SLOW = {"bench": 90}
# A valid value of options whose default the help does not print.
VALID = {
    "--config": "in/settings.yaml",
    "--set": "gamma=0.1",
    "--chip-set": "core.adc_noise=2",
    "--predict": "in/a.csv",
    "--measured": "in/measured.csv",
    "--data-dir": "data",
    "--label-column": "last",
    "--format": "csv",
    "--n-features": "4",
    "--truncation": "3",
    "--n-components": "16",
    "--chip-draws": "2",
    "--n-directions": "8",
    "--nb-features": "8",
    "--length": "20",
    "--head-dim": "4",
    "--sequences": "1",
    "--query-rows": "5",
    "--matrix-rows": "5",
    "--heat-map": "o.svg",
    "--checkpoint": "in/performer.safetensors",
    "--dump-qkv": "o.npy",
    "--task": "tiny",
    "--samples": "20",
    "--log-ratio": "0",
    "--seed": "1",
    "--seeds": "0..1",
    "--run-seeds": "0..1",
    "--input-alpha": "2",
    "--chip-seed": "1",
    "--free": "core.adc_noise=0..5/5",
    "--candidate": "a:core.adc_noise=2",
    "--resume": "o.jsonl",
    "--chip-draw": "0",
    "--datasets": "ringnorm",
    "--title": "t",
    "--at": "1h",
    "--csv": "o.csv",
    "--figure": "o.svg",
    "--figures": "o",
    "--page": "o.html",
    "--svg": "o.svg",
    "--timeline": "o.svg",
    "--perfetto": "o.json",
    "--mapping": "o.json",
    "--record": "o.rec",
    "--save": "o.imka",
    "--save-omega": "o.npy",
    "--train-rows": "20",
    "--test-rows": "20",
    "--rows": "20",
    "--methods": "verify",
    "--input": "in/a.csv",
    "--times": "1h",
    "--input-range": "max",
}
LOADED = {"ridge": "in/model.imka", "chip mvm": "in/chip.imka", "chip age": "in/chip.imka"}
OUTPUTS = {
    "chip fit": "o.yaml",
    "report": "o.html",
    "chip program": "o.imka",
    "features": "o.npy",
    "sweep": "o",
    "train": "o",
    "reproduce": "o",
}

LONG = "x" * 100_000
WORDS = {
    "empty": "",
    "word": "zzyzx",
    "blank": " ",
    "control": samples.ESCAPE,
    "not_utf8": b"\xff\xfe\x9b31m",
    "newline": "a\nb",
    "format": "%s%n{}",
    "long": LONG,
    "c1": "\u009b31m",
    "dash": "-",
    "path": "none/../zzyzx",
}
INTEGERS = {
    "half": "1.5",
    "unit": "5x",
    "nan": "nan",
    "inf": "inf",
    "minus": "-1",
    "2^64": str(2**64),
    "1e300": "1e300",
    "digits": "9" * 400,
    "list": "1,2",
    "arabic": "\u0663",
}
OTHER_INTEGERS = {
    "zero": "0",
    "hex": "0x1",
    "2^31": str(2**31),
    "2^32": str(2**32),
    "2^63-1": str(2**63 - 1),
    "2^63": str(2**63),
    "2^64-1": str(2**64 - 1),
    "1e3": "1e3",
    "plus": "+1",
}
NUMBERS = {
    "nan": "nan",
    "-nan": "-nan",
    "inf": "inf",
    "-inf": "-inf",
    "unit": "5x",
    "comma": "1,5",
    "1e999": "1e999",
    "digits": "9" * 400,
}
OTHER_NUMBERS = {
    "zero": "0",
    "minus": "-1",
    "1e300": "1e300",
    "-1e300": "-1e300",
    "1e-300": "1e-300",
    "1e38": "1e38",
    "-0": "-0",
    "hex": "0x1p3",
}
TIMES = {
    "unit": "1parsec",
    "nan": "nan",
    "nanh": "nanh",
    "inf": "inf",
    "minus": "-1h",
    "1e999": "1e999",
    "1e300y": "1e300y",
    "only_unit": "h",
}
OTHER_TIMES = {"zero": "0", "1e300": "1e300", "1e-300": "1e-300", "1e9y": "1e9y"}
SEEDS = {
    "back": "5..2",
    "open": "1..",
    "dots": "..",
    "minus": "-1",
    "nan": "nan",
    "half": "0.5",
    "2^64": str(2**64),
    "comma": "1,,2",
    "word": "1,a",
    "all": f"0..{2**64 - 1}",
    "many": "0..99999999999",
}
OTHER_SEEDS = {"twice": "1,1", "2^63": str(2**63), "end": "1,"}
SET_VALUES = {
    "no_value": "gamma",
    "no_key": "=1",
    "empty": "gamma=",
    "unknown": "zzyzx=1",
    "nan": "gamma=nan",
    "twice": "gamma=1,gamma=2",
    "control": "\x1b[31m=1",
    "core.nan": "core.adc_noise=nan",
    "core.inf": "core.adc_noise=inf",
    "core.minus": "core.adc_noise=-1",
    "core.unknown": "core.zzyzx=1",
}


def values_of(option):
    """Class, value, allowed exit codes."""
    words, bad, other = WORDS, {}, {}
    codes = USAGE
    if option.kind == "integer":
        bad, other = INTEGERS, OTHER_INTEGERS
    elif option.kind == "number":
        bad, other = NUMBERS, OTHER_NUMBERS
    elif option.kind == "time":
        bad, other = TIMES, OTHER_TIMES
    elif option.kind == "seeds":
        bad, other = SEEDS, OTHER_SEEDS
    elif option.kind == "choice":
        bad = {
            "upper": option.choices[0].upper() + "x",
            "number": "1e5",
            "nan": "nan",
            "both": "|".join(option.choices[:2]),
        }
    elif option.kind == "name" and "--set" in option.names or "--chip-set" in option.names:
        bad = SET_VALUES
        codes = REFUSED
    elif option.kind in ("name", "input"):
        codes = REFUSED
    elif option.kind in ("text", "output"):
        codes = ALWAYS
    for name, value in {**words, **bad}.items():
        # Where a type is a list of words or a file, text that is too long may be a problem of the file.
        yield name, value, USAGE if name == "empty" else codes
    for name, value in other.items():
        # 1: every run of a reproduction failed for lack of data.
        yield name, value, ALWAYS | INTERRUPTED


def without(base, option):
    """The base without the option and without those that it excludes."""
    words, out = base.split(), []
    if option.positional:
        return words[1:] if words and not words[0].startswith("-") else words
    gone = {*option.names, *option.excludes}
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in gone:
            skip = True
        else:
            out.append(word)
    return out


def given(option, value):
    return [value] if option.positional else [option.name, value]


def valid_value(verb, option):
    if option.name == "--load":
        return LOADED.get(verb.name, "in/a.csv")
    if verb.name == "attention" and option.name in ("--input", "--dataset"):
        return "in/qkv.npy"
    if option.kind == "output":
        return VALID.get(option.name, OUTPUTS.get(verb.name, "o.csv"))
    # --chip-draws 0, the default, means that the option was not given.
    if option.default and option.default != "auto" and option.name != "--chip-draws":
        return option.default
    return VALID.get(option.name) or (option.choices[0] if option.choices else "1")


def bases_of(verb, option):
    """The bases in which the option can act, as far as the help tells."""
    bases = BASES.get(verb.name, [""])
    needs = re.match(r"With (--\w+)", option.text)
    word = (
        needs.group(1)
        if needs
        else (
            "--backend"
            if option.group.startswith("With a chip")
            else "--dataset" if option.group.startswith("Instead") else ""
        )
    )
    return [base for base in bases if word in base] or bases


def probes(verb, option):
    """Commands with a valid value of the option, one per base."""
    for base in bases_of(verb, option):
        extra = [option.name] if option.kind == "flag" else given(option, valid_value(verb, option))
        if option.positional:
            yield base, verb.name.split() + base.split()
        else:
            yield base, verb.name.split() + without(base, option) + extra


def limit_of(verb):
    return SLOW.get(verb.name, 20)


def option_cases(verb, option, base, rng):
    head, rest = verb.name.split(), without(base, option)
    limit = limit_of(verb)

    def case(kind, name, extra, codes, **more):
        args = head + extra + rest if option.positional else head + rest + extra
        if kind not in ("flag", "value", "twice") and verb.find("--json") and rng.random() < 0.4:
            args.append("--json")
        return Case(verb.name, kind, f"{option.name} {name}", args, codes, limit=limit, **more)

    if option.kind == "flag":
        if option.name != "--help":
            yield case("flag", "value", [option.name + "=zzyzx"], USAGE)
            yield case("flag", "empty", [option.name + "="], USAGE)
            yield case("twice", "twice", [option.name, option.name], ALWAYS)
        return
    for name, value, codes in values_of(option):
        # A valid value may mean hours of work.
        signals = [(8, signal.SIGTERM)] if 130 in codes else []
        yield case(option.kind, name, given(option, value), codes, signals=signals)
    if option.positional:
        return
    yield case("value", "missing", [option.name], USAGE)
    yield case("value", "=", [option.name + "="], USAGE)
    yield case("value", "= and flag", [option.name + "=", "--quiet"], USAGE)
    yield case("value", "flag as value", [option.name, "--quiet"], USAGE)
    value = valid_value(verb, option)
    # The option takes two values, which can be given one by one.
    pair = option.spec.endswith("x 2")
    yield case("twice", "twice", [option.name, value, option.name, value], ANY if option.repeatable or pair else USAGE)
    if option.kind == "output":
        yield from output_cases(case, option, value)
    if option.kind == "input":
        yield from path_cases(case, option)


def output_cases(case, option, value):
    """Paths that cannot be written, and targets of links."""
    end = os.path.splitext(value)[1]
    folder_option = end == ""
    for name, path in (
        ("missing_folder", f"none/a/o{end}"),
        ("file_as_folder", f"old/o{end}"),
        ("full_device", "/dev/full"),
        ("null_device", "/dev/null"),
        ("long_name", "n" * 300 + end),
    ):
        yield case(
            "output", name, [option.name, path], ANY if name == "missing_folder" else REFUSED, files={"old": b"old"}
        )
    yield case(
        "output",
        "folder",
        [option.name, f"there{end}"],
        ANY if folder_option else REFUSED,
        folders={f"there{end}": 0o755},
    )
    yield case(
        "output", "read_only_folder", [option.name, f"locked/o{end}"], REFUSED, folders={"locked": 0o555}, user=NOBODY
    )
    yield case("output", "fifo", [option.name, f"pipe{end}"], REFUSED, fifos=[f"pipe{end}"])
    yield case("output", "link_loop", [option.name, f"loop{end}"], REFUSED, links={f"loop{end}": f"loop{end}"})
    yield case("output", "file_size_limit", [option.name, value], ANY, before="ulimit -f 0; exec")
    # No exec, since the shell then looks for temporary files.
    full = "mkdir full && mount -t tmpfs -o size=4k tmpfs full && head -c 4096 /dev/zero >full/x 2>/dev/null;"
    yield case(
        "output",
        "full_disk",
        [option.name, f"full/o{end}"],
        REFUSED,
        before=full,
        redirect='; code=$?; for f in full/*.tmp full/.*.tmp; do [ -e "$f" ] && echo "LEFT $f"; done; exit $code',
        verify=lambda _, result: "temporary file left on the full disk" if b"LEFT" in result.out else "",
    )
    if not folder_option:

        def followed(folder, result):
            if result.code == 0 and not ((folder / f"link{end}").is_symlink() and (folder / f"target{end}").exists()):
                return "a dangling link was replaced, not followed"
            return ""

        yield case(
            "output",
            "dangling_link",
            [option.name, f"link{end}"],
            ANY,
            links={f"link{end}": f"target{end}"},
            verify=followed,
        )


def path_cases(case, option):
    """Paths that are not a readable file."""
    refused = ANY if option.name == "--python" else REFUSED  # a program: it is run, not read
    for name, path in (
        ("missing", "in/none.csv"),
        ("folder", "in/folder.csv"),
        ("null_device", "/dev/null"),
        ("endless", "/dev/zero"),
        ("noise", "/dev/urandom"),
        ("long_name", "n" * 300),
        ("below_file", "in/a.csv/x"),
    ):
        # An empty file of settings means the defaults.
        empty = name == "null_device" and option.name == "--config"
        yield case("path", name, [option.name, path], ANY if empty else refused)
    yield case("path", "unreadable", [option.name, "in/unreadable.csv"], refused, user=NOBODY)
    yield case("path", "dangling_link", [option.name, "link.csv"], refused, links={"link.csv": "none"})
    yield case("path", "link_loop", [option.name, "link.csv"], refused, links={"link.csv": "link.csv"})
    yield case(
        "path",
        "fifo",
        [option.name, "pipe.csv"],
        frozenset({2, 3, 4, 130}),
        fifos=["pipe.csv"],
        signals=[(0.5, signal.SIGTERM)],
    )


def idle_cases(verb, option):
    """Options that cannot act: an error, or a note that names the option."""
    head = verb.name.split()
    bases = BASES.get(verb.name, [""])
    value = [] if option.kind == "flag" else [valid_value(verb, option)]
    if option.kind == "choice":
        value = [next(c for c in reversed(option.choices) if c != option.default)]

    def case(base, why):
        return Case(
            verb.name,
            "idle",
            f"{option.name} {why}",
            head + without(base, option) + [option.name, *value],
            frozenset({0, 2, 3}),
            says=option.name,
            limit=limit_of(verb),
        )

    if option.group.startswith("With a chip"):
        yield case(bases[0], "without a chip")
    if option.group.startswith("Instead of products"):
        if option.name != "--dataset":
            yield case(bases[0], "without a data set")
    if found := re.match(r"With (--\w+)", option.text):
        if found.group(1) not in bases[0]:
            yield case(bases[0], f"without {found.group(1)}")
    if verb.name == "ridge" and option.kind != "flag":
        # A loaded model has its own settings.
        if option.name not in (
            "--backend",
            "--load",
            "--predict",
            "--output",
            "--threads",
            "--data-dir",
            "--format",
            "--label-column",
            "--n-features",
            "--drop-columns",
            "--header",
            "--missing",
        ):
            yield case(bases[-1], "with a loaded model")
    if verb.name in ("gram", "ridge") and option.name in ("--label-column", "--format", "--n-features"):
        yield case(bases[0], "with generated data")
    if option.name == "--n-features":
        yield case(bases[0] if verb.name == "features" else bases[1], "with a CSV file")


READERS = {
    "table": [
        "features --input {F} --output z.npy --n-components 8 --label-column last",
        "ridge --dataset {F} --log-ratio 0",
        "gram --dataset {F} --log-ratio 0",
        "data show {F}",
        "data export {F} --output o.csv",
        "ridge --load in/model.imka --predict {F} --output p.csv",
    ],
    "matrix": [
        "chip mvm --weights {F} --inputs 20 --calibration-inputs 50 --seed 0",
        "chip mvm --input-law {F} --rows 8 --cols 8 --seed 0",
    ],
    "model": ["ridge --load {F} --predict in/a.csv --output p.csv"],
    "programmed": [
        "chip mvm --load {F} --inputs 20 --calibration-inputs 50 --seed 0",
        "chip age --load {F} --inputs 20 --calibration-inputs 50 --seed 0 --times 1h",
    ],
    "chip": [
        "chip info {F}",
        "gram --dataset ringnorm --log-ratio 0 --gram-rows 20 --backend {F}",
        f"chip mvm {PRODUCT} --seed 0 --backend {{F}}",
    ],
    "experiment": ["sweep {F} --output runs", "sweep {F} --output runs --dry-run"],
    "records": ["report {F} --output page.html", "report {F} --csv o.csv", "report {F} --losses"],
    "attention": ["attention --dataset {F} --n-directions 8"],
    "settings": ["gram --dataset ringnorm --log-ratio 0 --gram-rows 20 --config {F}"],
    "pairs": ["chip fit {F} --output o.yaml"],
    "measured": ["chip fit --measured {F} --experiment in/tiny_chip.yaml --no-leave-out"],
}
FORMATS = [
    ("table", "a.csv"),
    ("table", "a.libsvm"),
    ("table", "a.arff"),
    ("table", "a.npy"),
    ("table", "a.csv.gz"),
    ("table", "a.csv.xz"),
    ("table", "a.csv.bz2"),
    ("table", "a.csv.zst"),
    ("matrix", "w.npy"),
    ("attention", "qkv.npy"),
    ("model", "model.imka"),
    ("programmed", "chip.imka"),
    ("chip", "chip.yaml"),
    ("experiment", "tiny.yaml"),
    ("records", "records.jsonl"),
    ("settings", "settings.yaml"),
    ("pairs", "pairs.csv"),
    ("measured", "measured.csv"),
]
CHECKED = (".imka", ".gz", ".xz", ".bz2")  # formats with a checksum: no damage may pass
MUST_FAIL = (
    "empty",
    "random",
    "zeros",
    "header_",
    "huge_shape",
    "shape(9",
    "shape(4",
    "shape(-",
    "type>",
    "type|O",
    "type<c",
    "fortran",
    "deep",
)


def codes_after(damage, name):
    if name == "settings.yaml" and damage == "empty":
        return frozenset({0})
    if name.endswith(CHECKED) and damage not in ("doubled",) and not damage.startswith("flip"):
        return frozenset({2, 3})
    # The header of a gzip file has a name and a time that are not checked.
    if name.endswith(".imka") and damage.startswith("flip"):
        return frozenset({2, 3})
    if damage.startswith(MUST_FAIL) and not damage.startswith("header_only"):
        return frozenset({2, 3})
    return ALWAYS


def verb_of(command):
    words = command.split()
    return " ".join(words[:2]) if words[0] in ("data", "chip") else words[0]


def file_cases(folder, rng):
    for kind, name in FORMATS:
        data = (folder / name).read_bytes()
        for i, (damage, content) in enumerate(samples.damaged(data, name, rng)):
            readers = READERS[kind]
            for reader in dict.fromkeys((readers[0], readers[i % len(readers)])):
                yield Case(
                    verb_of(reader),
                    "file",
                    f"{kind} {name} {damage}",
                    reader.replace("{F}", name).split(),
                    codes_after(damage, name),
                    files={name: content},
                )
        for other_kind, other in FORMATS:
            if other_kind != kind and not (other.endswith(".npy") and name.endswith(".npy")):
                reader = rng.choice(READERS[kind])
                yield Case(
                    verb_of(reader),
                    "wrong format",
                    f"{other} as {name}",
                    reader.replace("{F}", name).split(),
                    REFUSED | {1},
                    files={name: (folder / other).read_bytes()},
                )
    for name in (
        "hostile.csv",
        "numeric_header.csv",
        "missing_values.csv",
        "one_class.csv",
        "constant.csv",
        "huge_values.csv",
        "tiny_values.csv",
        "one_row.csv",
        "bomb.csv.gz",
    ):
        for reader in READERS["table"]:
            yield Case(
                verb_of(reader),
                "odd table",
                f"{name}: {verb_of(reader)}",
                reader.replace("{F}", f"in/{name}").split(),
                ANY,
                limit=40,
            )
    for command in (
        "chip info in/hostile_chip.yaml",
        f"chip mvm {PRODUCT} --backend in/hostile_chip.yaml",
        "report in/hostile_records.jsonl --output page.html",
        "report in/hostile_records.jsonl --csv o.csv",
        "ridge --load in/hostile.imka --predict in/a.csv --output p.csv",
        "data show in/hostile.csv",
    ):
        for extra in ([], ["--json"]):
            yield Case(verb_of(command), "escape", command, command.split() + extra, ALWAYS)


def environment_cases(verb, base_result):
    """The streams and limits of the process, with a command that works and with one that fails."""
    limit = limit_of(verb) + 20
    args = verb.name.split() + BASES.get(verb.name, [""])[0].split()
    code, out = base_result.code, base_result.out
    wrong = args + ["--zzyzx"]

    def case(name, words, codes, **more):
        return Case(
            verb.name,
            "streams" if "ulimit" not in more.get("before", "") else "limits",
            name,
            words,
            frozenset(codes),
            limit=limit,
            **more,
        )

    printing = {3} if out and code == 0 else {code, 3}
    yield case("stdout closed", args, printing, redirect=">&-")
    yield case("stdout full", args, printing, redirect=">/dev/full")
    yield case("stdout is read-only", args, printing, redirect="1</dev/null")
    yield case("stdout broken pipe", args, {141} if out and code == 0 else {code, 141}, broken_pipe=True)
    yield case("stderr closed", args, {code}, redirect="2>&-")
    yield case("stderr full", args, {code}, redirect="2>/dev/full")
    yield case("both full", args, printing, redirect=">/dev/full 2>/dev/full")
    yield case("all closed", args, printing, redirect="<&- >&- 2>&-")
    yield case("stdin closed", args, {code}, redirect="<&-")
    yield case("error, stderr closed", wrong, {2}, redirect="2>&-")
    yield case("error, stderr full", wrong, {2}, redirect="2>/dev/full")
    yield case("help, stdout full", verb.name.split() + ["--help"], {3}, redirect=">/dev/full")
    yield case("help, stdout closed", verb.name.split() + ["--help"], {3}, redirect=">&-")
    # Less than 80,000 KiB is not enough to load the libraries.
    for kib in (100_000, 500_000, 2_000_000):
        # 1: every run of a sweep failed for lack of memory.
        yield case(f"ulimit -v {kib}", args, {code, 1, 3} if verb.name == "sweep" else {code, 3}, before=f"ulimit -v {kib}; exec")
    yield case("ulimit -f 0", args, {code, 3}, before="ulimit -f 0; exec")
    yield case("ulimit -n 4", args, {code, 3}, before="ulimit -n 4; exec")
    yield case("ulimit -u 1", args, {code, 3}, before="ulimit -u 1; exec", user=NOBODY)
    yield case("ulimit -s 256", args, {code, 3}, before="ulimit -s 256; exec")
    for variable in (
        {"IMKA_DATA": ""},
        {"IMKA_DATA": "/none"},
        {"IMKA_DATA": samples.ESCAPE},
        {"LC_ALL": "zz_ZZ"},
        {"PATH": ""},
        {"COLUMNS": "-1"},
        {"OMPI_COMM_WORLD_SIZE": "zzyzx"},
        {"PMI_SIZE": "-1", "SLURM_NTASKS": "nan"},
        {"OMP_NUM_THREADS": "-5", "OPENBLAS_NUM_THREADS": "x"},
    ):
        yield Case(
            verb.name,
            "environment",
            " ".join(f"{k}={v!r}" for k, v in variable.items()),
            args,
            frozenset({code, 2, 3, 4}),
            environment=variable,
            limit=limit,
        )


# Work of at least half a minute if nothing stops it.
WORK = [
    "ridge --dataset ringnorm --n-components 4000 --seeds 0..99",
    "gram --dataset ringnorm --log-ratio 9 --gram-rows 3700 --seeds 0..99",
    "ridge --dataset ringnorm --log-ratio 4 --backend hermes --seeds 0..999",
    "chip mvm --rows 512 --cols 512 --seeds 0..999",
    "chip age --rows 256 --cols 256 --seeds 0..999",
    "chip explain --rows 256 --cols 256 --seeds 0..999",
    "chip program --rows 256 --cols 256 --draws 1000 --iterations 1000 --output o.imka",
    "data generate ringnorm --rows 30000000 --output o.csv",
    "data generate ringnorm --rows 30000000 --output o.npy",
    "features --input pipe.csv --output z.npy",
    "data show pipe.csv",
    "ridge --dataset pipe.csv",
    "ridge --load in/model.imka --predict pipe.csv --output p.csv",
    "sweep smoke --set seeds=0..999 --output runs",
    "bench stream --rows 1000000000",
    "chip mvm --weights pipe.csv",
    "report pipe.csv",
    "sweep pipe.csv",
    "gram --config pipe.csv",
    "chip info pipe.csv",
    "chip fit pipe.csv",
    "ridge --load pipe.csv --predict in/a.csv --output p.csv",
    "data export ringnorm --train-rows 30000000 --output o.csv",
]
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGQUIT": signal.SIGQUIT}


def signal_cases(rng):
    for i, work in enumerate(WORK):
        args = work.split()
        fifos = ["pipe.csv"] if "pipe.csv" in work else []
        # A verb may refuse a pipe at once.
        codes = INTERRUPTED | {2, 3} if fifos else INTERRUPTED
        names = list(SIGNALS)
        for name in (names[i % 4], names[(i + 1) % 4]):
            yield Case(
                verb_of(work), "signal", f"{name} {work}", args, codes, signals=[(0.8, SIGNALS[name])], fifos=fifos
            )
        name = names[(i + 2) % 4]
        yield Case(
            verb_of(work),
            "signal",
            f"{name} twice {work}",
            args,
            codes,
            signals=[(0.8, SIGNALS[name]), (1.0, SIGNALS[name])],
            fifos=fifos,
        )
        if " --output " in work and not fifos:
            again = {
                "data generate": "data generate ringnorm --rows 20 --output",
                "chip program": f"chip program {PRODUCT} --iterations 2 --output",
                "sweep": "sweep in/tiny.yaml --output",
                "data export": "data export ringnorm --train-rows 20 --output",
            }[verb_of(work)]
            yield Case(
                verb_of(work),
                "signal",
                f"SIGKILL {work}",
                args,
                INTERRUPTED,
                signals=[(0.8, signal.SIGKILL)],
                again=again.split() + args[-1:],
            )


def rows_of_npy(path):
    head = path.read_bytes()[:128]
    return int(re.search(rb"'shape': \((\d+)", head).group(1))


def special_cases():
    """Cases where the result itself is checked."""
    many = ("a,b,label\n" + "".join(f"{i % 97}.5,{i % 89}.25,{'xy'[i % 2]}\n" for i in range(30000))).encode()

    def all_rows(folder, result):
        rows = rows_of_npy(folder / "z.npy") if result.code == 0 else 30000
        return "" if rows == 30000 else f"{rows} of 30000 rows arrived"

    for extra in ("", "--standardize", "--n-components 16 --backend hermes"):
        yield Case(
            "features",
            "pipe",
            f"/dev/stdin {extra}",
            f"features --input /dev/stdin --format csv --label-column last --output z.npy {extra}".split(),
            frozenset({0, 2, 3}),
            stdin=many,
            verify=all_rows,
        )
    for command in (
        "ridge --dataset /dev/stdin --format csv --log-ratio 0",
        "gram --dataset /dev/stdin --format csv --log-ratio 0",
        "data show /dev/stdin",
    ):
        yield Case(verb_of(command), "pipe", command, command.split(), frozenset({0, 2, 3}), stdin=many)

    def labels_survive(folder, result):
        if result.code != 0:
            return ""
        name = "p.csv" if (folder / "p.csv").exists() else "o.csv"
        with open(folder / name, newline="", encoding="utf-8") as f:
            found = {row[-1] for row in list(csv.reader(f))[1:]}
        wrong = found - {label.strip() for label in samples.HOSTILE_LABELS} - set(samples.HOSTILE_LABELS)
        return f"labels that were not in the data: {sorted(wrong)[:3]}" if wrong else ""

    for command in (
        "ridge --load in/hostile.imka --predict in/hostile.csv --output p.csv",
        "data export in/hostile.csv --output o.csv",
    ):
        yield Case(verb_of(command), "labels", command, command.split(), frozenset({0, 3}), verify=labels_survive)
    for command in (
        "gram --dataset ringnorm --log-ratio 0 --gram-rows 20",
        "ridge --dataset ringnorm --log-ratio 0 --gram-rows 20",
        f"chip mvm {PRODUCT}",
    ):

        def no_interval(folder, result):
            return "an interval of 0 from one seed" if re.search(rb'"(std|ci95)": ?0(\.0)?[,}\s]', result.out) else ""

        yield Case(
            verb_of(command),
            "one seed",
            command,
            [*command.split(), "--seed", "3", "--json"],
            frozenset({0}),
            verify=no_interval,
        )
        yield Case(verb_of(command), "one seed", f"list: {command}", [*command.split(), "--seed", "1,5"], USAGE)
    for command in (
        "data generate ringnorm --rows 1000000000000000 --output o.csv",
        "data generate ringnorm --rows 1000000000000000 --output o.npy",
        "ridge --dataset ringnorm --n-components 2000000",
        "ridge --dataset ringnorm --n-components 200000000",
        "ridge --dataset ringnorm --log-ratio 30",
        "gram --dataset ringnorm --log-ratio 40",
        "gram --dataset ringnorm --n-components 100000000000",
        "chip mvm --rows 1048576 --cols 1048576",
        "chip mvm --inputs 100000000 --rows 256 --cols 256 --calibration-inputs 1000000 --seeds 0..999999999",
        "chip mvm --replicas 65536",
        "features --input in/a.csv --output z.npy --n-components 100000000000",
        "data show ringnorm --train-rows 1000000000000",
        "data export ringnorm --train-rows 1000000000000 --output o.csv",
        "sweep smoke --set seeds=0..99999999 --output runs",
        "sweep smoke --set log_ratio=[30] --output runs",
        "bench stream --rows 1099511627776 --rounds 1",
        "chip program --draws 10000 --rows 1048576 --cols 1048576",
        "ridge --dataset ringnorm --n-components 4294967296 --backend hermes",
    ):
        yield Case(verb_of(command), "too large", command, command.split(), frozenset({1, 2, 3}), limit=60)
    for key, value in [
        (k, v)
        for k in (
            "core.adc_noise",
            "core.output_headroom",
            "device.programming_scale",
            "core.max_count",
            "device.g_max_us",
            "core.input_bits",
            "device.read_noise_scale",
            "core.gain_sd",
            "core.rows",
        )
        for v in ("nan", "inf", "-1", "1e300", "-1e300", "1e-300", "0", "", "zzyzx", "2,3")
    ]:
        yield Case(
            "chip mvm",
            "constant",
            f"{key}={value}",
            f"chip mvm {PRODUCT} --seed 0 --chip-set".split() + [f"{key}={value}"],
            REFUSED if value in ("nan", "inf", "", "zzyzx") else ANY,
        )
    for command in (
        f"chip mvm {PRODUCT} --chip-set core.adc_noise=1 --chip-set core.adc_noise=2",
        "gram --backend hermes --chip-set core.adc_noise=1,core.adc_noise=2",
        "gram --set gamma=1 --set gamma=2",
        "sweep smoke --set seeds=0 --set seeds=1 --output runs",
        "ridge --gamma 0.1 --set gamma=0.2",
    ):
        yield Case(
            verb_of(command),
            "same key twice",
            command,
            command.split(),
            frozenset({2}) if "--gamma" not in command else ANY,
        )
    for words in (
        ["zzyzx"],
        ["rigde"],
        ["data", "zzyzx"],
        ["chip", "zzyzx"],
        ["data"],
        ["chip"],
        [],
        ["--zzyzx"],
        ["-"],
        [samples.ESCAPE],
        [b"\xff\xfe"],
        [""],
        ["x" * 100000],
    ):
        named = words and words[-1] in ("zzyzx", "rigde")
        yield Case(
            "(none)",
            "verb",
            repr(words[-1:])[:40],
            words,
            USAGE,
            verify=lambda _, r, w=words[-1] if named else "": (
                "the message does not name the verb" if w and w.encode() not in r.err else ""
            ),
        )
    wide = struct.pack("<f", 1.0)
    for shape, content in (("(1, 16777216)", wide * (1 << 24)), ("(1, 1000000)", wide * 1000000)):
        data = samples.npy_header(shape) + content
        yield Case(
            "features",
            "too large",
            f"NPY of shape {shape}",
            "features --input wide.npy --output z.npy --n-components 16".split(),
            ANY,
            files={"wide.npy": data},
            limit=60,
        )
