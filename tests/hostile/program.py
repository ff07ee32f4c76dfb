"""The verbs and options of the program, read from its own help, so that a new option is tested without a change here."""

import dataclasses
import re
import subprocess

COLUMN = 30  # where CLI11 begins the descriptions


@dataclasses.dataclass
class Option:
    names: list  # all spellings; of a positional, its name without dashes
    kind: str  # flag, integer, number, time, seeds, choice, input, output, name, text
    spec: str  # type as printed by the help
    text: str  # description
    default: str
    choices: list
    excludes: list
    group: str  # heading in the help
    positional: bool = False
    repeatable: bool = False

    @property
    def name(self):
        return self.names[0]

    def shape(self):
        """Equal for options that are parsed by the same code."""
        return (self.name, self.spec)


@dataclasses.dataclass
class Verb:
    name: str  # "data list"
    options: list

    def find(self, name):
        return next((o for o in self.options if name in o.names), None)


# Options whose value is any text.
FREE_TEXT = {"--title", "--data-dir", "--base-url"}


def kind_of(spec, text, choices):
    if not spec:
        return "flag"
    if re.match(r"(Write|Save|Draw|Also write|File to write|Output folder)", text) or spec == "FILE.yaml":
        return "output"
    if re.search(r"TIME|LIST", spec) or text.startswith("Time "):
        return "time"
    if re.search(r"list such as|^TEXT$", spec) and text.startswith(("Seeds", "With --measured: seeds")):
        return "seeds"
    if re.search(r"FILE|PATH", spec):
        return "input"
    if choices:
        return "choice"
    if re.search(r"INT|integer|whole", spec):
        return "integer"
    if re.search(r"FLOAT|number", spec):
        return "number"
    return "name"


def parse_option(left, text, group):
    positional = group.startswith("Positionals")
    names, _, spec = left.strip().partition(" ")
    spec = re.sub(r"Needs:(\s+-[\w-]+)+", "", spec)
    spec, _, excludes = spec.partition("Excludes:")
    # CLI11 prints "REQUIRED" and "..." after the type.
    repeatable = "..." in spec
    spec = re.sub(r"\s*(REQUIRED|\.\.\.)", "", spec).strip()
    default = ""
    found = re.match(r"(.*?)=(\S*)$", spec)
    if found and "KEY" not in spec:
        spec, default = found.groups()
    listed = re.search(r"\{(.*)\}", spec)
    choices = listed.group(1).split(",") if listed else []
    if not choices and re.fullmatch(r"[a-z0-9_-]+(\|[a-z0-9_-]+)+", spec) and "number" not in spec:
        choices = spec.split("|")
    kind = kind_of(spec, text, choices)
    names = sorted(names.split(","), key=lambda n: not n.startswith("--"))
    if kind == "name" and names[0] in FREE_TEXT:
        kind = "text"
    return Option(names, kind, spec, text, default, choices, excludes.split(), group, positional, repeatable)


def parse_help(text):
    """Options and names of the subcommands."""
    options, verbs, group = [], [], ""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if re.match(r"\S.*:$", line):
            group = line
        elif group == "Subcommands:" and re.match(r"  \w", line):
            verbs.append(line.split()[0])
        elif re.match(r"  [-\w]", line) and group not in ("", "Examples:", "Subcommands:"):
            below = lines[i + 1] if i + 1 < len(lines) else ""
            if below.startswith(" " * COLUMN):
                options.append(parse_option(line, below.strip(), group))
            else:
                options.append(parse_option(line[:COLUMN], line[COLUMN:], group))
    return options, verbs


def output_of(imka, *args):
    return subprocess.run([imka, *args], capture_output=True, text=True, check=True, timeout=60).stdout


def read_verbs(imka):
    """Every verb without subcommands. The completion script also names verbs that the help hides."""
    completion = output_of(imka, "completion", "bash")
    paths = [p.split()[1:] for p in re.findall(r"'(imka(?: [\w-]+)*)'\)", completion)]
    found = []
    for path in sorted(p for p in paths if p):
        options, below = parse_help(output_of(imka, *path, "--help"))
        if not below:
            found.append(Verb(" ".join(path), options))
    return found
