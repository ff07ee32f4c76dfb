"""Runs one case and says what is wrong with what the program did."""

import array
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

DOCUMENTED = {0, 1, 2, 3, 4, 130, 141}
LIMIT = 20  # seconds; every case needs about one
MESSAGE_LINES = 12
MESSAGE_BYTES = 4096
LEAKS = re.compile(
    rb"\[json\.exception|terminate called|what\(\)|std::|basic_string|vector::|\bstoi\b|\bstod\b|bad_alloc|"
    rb"bad conversion|line 0\b|\(null\)|Assertion|yaml-cpp"
)
NOT_FINITE = re.compile(rb"(?<![\w.-])[-+]?(nan|inf|infinity)(?!\w)", re.IGNORECASE)
NOBODY = 65534


@dataclasses.dataclass
class Case:
    verb: str
    kind: str  # class of the input: the column of the summary
    name: str
    args: list  # text or bytes, after the name of the program
    codes: frozenset  # exit codes that are right
    before: str = ""  # shell text before the command: limits
    redirect: str = ""  # shell text after the command
    files: dict = dataclasses.field(default_factory=dict)  # made in the folder of the case: name -> bytes
    links: dict = dataclasses.field(default_factory=dict)  # name -> target
    fifos: list = dataclasses.field(default_factory=list)
    folders: dict = dataclasses.field(default_factory=dict)  # name -> mode
    signals: list = dataclasses.field(default_factory=list)  # (seconds, signal)
    broken_pipe: bool = False  # nobody reads standard output
    stdin: bytes = b""
    user: int = None
    limit: float = LIMIT
    environment: dict = dataclasses.field(default_factory=dict)
    says: str = ""  # text that the error output must contain if the exit code is 0
    finite: bool = True  # check that results are finite
    verify: object = None  # function(folder, Result) -> text of a failure, or ""
    again: list = None  # second command in the same folder; must succeed and leave no temporary file

    def title(self):
        return f"{self.verb}: {self.kind}: {self.name}"

    def command(self, imka):
        words = [imka, *(a if isinstance(a, str) else os.fsdecode(a) for a in self.args)]
        if not self.before and not self.redirect:
            return words
        # A disk mounted by the case disappears with its processes.
        own_mounts = ["unshare", "--mount"] if "mount -t" in self.before else []
        return [*own_mounts, "sh", "-c", f'{self.before} "$@" {self.redirect}', "sh", *words]

    def shown(self, imka):
        """The command line to repeat the case in a folder where 'in' is the folder of samples."""
        words = " ".join(shell_word(a) for a in self.args)
        line = f"{self.before} {imka} {words} {self.redirect}".strip()
        return line if len(line) < 600 else line[:300] + f" ... ({len(line)} characters) ... " + line[-100:]


def shell_word(word):
    raw = os.fsencode(word) if isinstance(word, str) else word
    if all(32 <= b < 127 for b in raw):
        return shlex.quote(raw.decode())
    return "$'" + "".join(chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\x{b:02x}" for b in raw) + "'"


@dataclasses.dataclass
class Result:
    code: int
    out: bytes
    err: bytes
    seconds: float
    late: bool


def prepare(case, folder, samples):
    (folder / "in").symlink_to(samples)
    for name, data in case.files.items():
        (folder / name).write_bytes(data)
    for name, target in case.links.items():
        (folder / name).symlink_to(target)
    for name in case.fifos:
        os.mkfifo(folder / name)
    for name, mode in case.folders.items():
        (folder / name).mkdir()
        (folder / name).chmod(mode)


def end_group(process):
    """Kills the process, which leads its own session, and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def start(case, command, folder):
    read_end = None
    out = subprocess.PIPE
    if case.broken_pipe:
        read_end, out = os.pipe()
        os.close(read_end)
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        **case.environment,
    }
    extra = (
        {"user": case.user, "group": case.user, "extra_groups": []}
        if case.user is not None and os.geteuid() == 0
        else {}
    )
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE if case.stdin else subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **extra,
    )
    if case.broken_pipe:
        os.close(out)
    return process


def execute(case, command, folder):
    began = time.monotonic()
    process = start(case, command, folder)
    late = False
    try:
        for seconds, number in case.signals:
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            if process.poll() is None:
                os.kill(process.pid, number)
        out, err = process.communicate(case.stdin or None, timeout=case.limit)
    except subprocess.TimeoutExpired:
        late = True
        end_group(process)
        out, err = process.communicate()
    except BrokenPipeError:
        out, err = process.communicate()
    return Result(process.returncode, out or b"", err or b"", time.monotonic() - began, late)


def control_characters(data):
    text = data.decode("utf-8", "surrogateescape")
    bad = {c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or 0xDC80 <= ord(c) < 0xDCA0}
    return " ".join(sorted(f"{ord(c):#x}" for c in bad))


def check_message(case, result):
    err = result.err
    if result.code in (2, 3, 4) and "2>" not in case.redirect:
        if not err.strip():
            yield "no error message"
        elif not re.search(rb"^imka: |Run with --help for more information", err, re.MULTILINE):
            yield "the message does not begin with 'imka:'"
        elif re.search(rb"^imka: (error: )?imka:", err, re.MULTILINE):
            yield "'imka:' twice"
    if result.code != 0 and (err.count(b"\n") > MESSAGE_LINES or len(err) > MESSAGE_BYTES):
        yield f"a message of {err.count(10)} lines, {len(err)} bytes"
    if leak := LEAKS.search(err):
        yield f"internal text in a message: {leak.group().decode()}"
    if case.says and result.code == 0 and case.says.encode() not in err:
        yield f"accepted without a note on {case.says}"


def refuse_constant(name):
    raise ValueError(f"{name} in JSON")


def check_results(case, result):
    out = result.out
    shown = b" ".join(os.fsencode(a) if isinstance(a, str) else a for a in case.args)
    if case.finite and not NOT_FINITE.search(shown) and (found := NOT_FINITE.search(out)):
        yield f"'{found.group().decode()}' in the output"
    if "--json" in case.args and out and result.code in (0, 1) and "--help" not in case.args:
        try:
            json.loads(out, parse_constant=refuse_constant)
        except ValueError as e:
            yield f"JSON: {e}"


def npy_is_finite(path):
    data = path.read_bytes()
    if data[:6] != b"\x93NUMPY" or b"<f4" not in data[:128]:
        return True
    values = array.array("f", data[128 : len(data) // 4 * 4])
    return all(v - v == 0 for v in values)


def check_files(case, folder, result):
    known = {"in", *case.files, *case.links, *case.fifos, *case.folders}
    for path in folder.rglob("*"):
        relative = str(path.relative_to(folder))
        if relative.startswith("in/") or path.is_symlink():
            continue
        if path.name.endswith(".tmp"):
            yield f"temporary file left: {relative}"
        elif path.is_dir() or relative in known:
            continue
        elif path.name.startswith("--"):
            yield f"a file named {relative}"
        # A complete file stays, even if the result cannot be printed.
        elif (
            result.code not in (0, 1)
            and case.kind != "streams"
            and not re.search(r"experiment\.yaml$|records/.*\.jsonl$|claims/", relative)
        ):
            yield f"exit code {result.code}, but wrote {relative}"
        elif path.suffix == ".npy" and not npy_is_finite(path):
            yield f"a value that is not finite in {relative}"
        elif (
            path.suffix in (".csv", ".json", ".yaml", ".jsonl") and case.finite and NOT_FINITE.search(path.read_bytes())
        ):
            yield f"nan or inf in {relative}"
    for name, data in case.files.items():
        if result.code != 0 and (folder / name).read_bytes() != data:
            yield f"exit code {result.code}, but {name} changed"


def check(case, folder, result):
    if result.late:
        yield f"no end within {case.limit:.0f} s"
        return
    if result.code < 0 or result.code in (134, 139):
        yield f"killed by signal {-result.code if result.code < 0 else result.code - 128}"
    elif result.code not in DOCUMENTED:
        yield f"exit code {result.code} is not documented"
    elif result.code not in case.codes:
        yield f"exit code {result.code}, not {'/'.join(map(str, sorted(case.codes)))}"
    for stream, data in (("standard output", result.out), ("error output", result.err)):
        if found := control_characters(data):
            yield f"control characters in the {stream}: {found}"
    yield from check_message(case, result)
    yield from check_results(case, result)
    yield from check_files(case, folder, result)
    if case.verify and (problem := case.verify(folder, result)):
        yield problem


def run_again(case, imka, folder):
    first = dataclasses.replace(
        case, args=case.again, signals=[], before="", redirect="", codes=frozenset({0}), again=None, verify=None
    )
    yield from (f"second run: {p}" for p in check(first, folder, execute(first, first.command(imka), folder)))


def run_case(imka, case, samples, work):
    """Failures as text, the result."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=work))
    try:
        prepare(case, folder, samples)
        folder.chmod(0o777 if case.user is not None else 0o755)
        result = execute(case, case.command(imka), folder)
        if case.again is None:
            failures = list(check(case, folder, result))
        else:
            failures = list(run_again(case, imka, folder))
        return failures, result
    finally:
        for name in case.folders:
            (folder / name).chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
