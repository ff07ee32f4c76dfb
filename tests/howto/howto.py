#!/usr/bin/env python3
"""Runs the commands in the code blocks of the pages and compares the outputs the pages quote.

  howto.py IMKA [PAGE ...]            the pages of docs/howto and README.md
  howto.py IMKA --update [PAGE ...]   writes the current outputs into the pages
  howto.py IMKA --slow                also the blocks marked as slow

A block without a language whose lines begin with "imka" is run, line by line, in one folder per page. A block without
a language right after it quotes what its last command prints; a line "..." there stands for any lines. Comments above
a block, which the reader does not see:

  <!-- file: widths.yaml -->       the block is this file
  <!-- skip: reason -->            do not run the block
  <!-- slow -->                    run the block only with --slow
  <!-- slow: REGEX -->             the same for the commands that match
  <!-- output varies -->           numbers are not compared
  <!-- output varies: REGEX -->    numbers are not compared in lines that match

A command that needs a data set that is missing (exit code 4) is skipped. Exit code 1: a command failed, or an output
differs.
"""

import argparse
import difflib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Commands that need more than the program.
SKIPPED = {
    "imka data fetch": "downloads",
    "mpirun": "needs MPI",
    "srun": "needs Slurm",
    "imka bench": "measures speed",
    "scripts/": "a script",
}
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")
MISSING_PART = 4


class Block:
    def __init__(self, language, first, lines, notes):
        self.language, self.first, self.lines, self.notes = language, first, lines, notes

    def note(self, name):
        """Text after the name of a comment; None without such a comment."""
        found = [n[len(name) :].lstrip(": ") for n in self.notes if n == name or n.startswith(name + ":")]
        return found[0] if found else None

    def commands(self):
        words = [line.split("#")[0].strip() for line in self.lines]
        runs = [w for w in words if re.match(r"(build/release/)?imka |mpirun |srun |scripts/", w)]
        return runs if not self.language and len(runs) == len([w for w in words if w]) else []


def read_blocks(text):
    """Blocks of a page; `first` is the index of the first line inside. A block quotes an output if it follows commands directly."""
    blocks, notes, lines, direct = [], [], text.splitlines(), False
    i = 0
    while i < len(lines):
        if found := re.fullmatch(r"<!-- (.*) -->", lines[i].strip()):
            notes.append(found.group(1))
        elif lines[i].startswith("```"):
            end = next(k for k in range(i + 1, len(lines)) if lines[k].startswith("```"))
            block = Block(lines[i][3:].strip(), i + 1, lines[i + 1 : end], notes)
            block.quotes = (
                blocks[-1]
                if direct
                and blocks[-1].commands()
                and not block.language
                and not block.commands()
                and block.note("file") is None
                else None
            )
            blocks.append(block)
            notes, direct, i = [], True, end
        elif lines[i].strip():
            notes, direct = [], False
        i += 1
    return blocks


def shown(lines, varies):
    """Lines as they are compared. Where numbers vary, so do the widths of the columns."""
    if varies is None:
        return [line.rstrip() for line in lines]
    masked = [NUMBER.sub("#", line) if re.search(varies, line) else line for line in lines]
    return [re.sub(r"\s+", " ", line).rstrip() for line in masked]


def matches(quoted, printed):
    """A line "..." stands for any number of lines."""
    if not quoted:
        return not printed
    if quoted[0] == "...":
        return any(matches(quoted[1:], printed[k:]) for k in range(len(printed) + 1))
    return bool(printed) and quoted[0] == printed[0] and matches(quoted[1:], printed[1:])


def cut_like(quoted, printed):
    """What --update writes: all lines; if the quote ended in "...", as many as before and "..."."""
    if quoted and quoted[-1] == "..." and len(printed) >= len(quoted):
        return printed[: len(quoted) - 1] + ["..."]
    return printed


class Page:
    def __init__(self, path, args):
        self.path, self.args = path, args
        self.text = path.read_text()
        self.problems, self.skipped, self.ran, self.compared, self.edits = [], [], 0, 0, []

    def problem(self, block, text):
        self.problems.append(f"{self.path.name}:{block.first + 1}: {text}")

    def run_command(self, block, command, folder):
        """Output of the command; None if it was skipped or failed."""
        if reason := self.why_not(block, command):
            self.skipped.append(f"{command}: {reason}")
            return None
        words = shlex.split(command)
        done = subprocess.run(
            [self.args.imka, *words[1:], "--quiet"], cwd=folder, capture_output=True, text=True, timeout=900
        )
        if done.returncode == MISSING_PART:
            self.skipped.append(f"{command}: {done.stderr.strip().splitlines()[-1]}")
            return None
        self.ran += 1
        if done.returncode != 0:
            self.problem(block, f"{command}: exit code {done.returncode}: {done.stderr.strip()}")
            return None
        return done.stdout

    def compare(self, block, output):
        varies = block.note("output varies")
        printed = output.rstrip("\n").splitlines()
        self.compared += 1
        if matches(shown(block.lines, varies), shown(printed, varies)):
            return
        if self.args.update:
            self.edits.append((block, [line.rstrip() for line in cut_like(block.lines, printed)]))
            return
        difference = "\n".join(
            difflib.unified_diff(
                shown(block.lines, varies), shown(printed, varies), "page", "printed", lineterm="", n=0
            )
        )
        self.problem(block, f"the output differs (howto.py --update writes the new one)\n{difference}")

    def run_block(self, block, folder):
        name = block.note("file")
        if name:
            (folder / name).write_text("\n".join(block.lines) + "\n")
            return None
        commands = block.commands()
        outputs = [self.run_command(block, command, folder) for command in commands]
        return outputs[-1] if outputs else None

    def why_not(self, block, command):
        """A reason not to run the command, or None."""
        if block.note("skip"):
            return block.note("skip")
        if block.note("slow") is not None and re.search(block.note("slow"), command) and not self.args.slow:
            return "slow"
        if "--data-dir" in command:
            return "needs data sets"
        return next((reason for start, reason in SKIPPED.items() if command.startswith(start)), None)

    def run(self, folder):
        outputs = {}
        for block in read_blocks(self.text):
            outputs[block.first] = self.run_block(block, folder)
            if block.quotes and outputs[block.quotes.first] is not None:
                self.compare(block, outputs[block.quotes.first])
        lines = self.text.splitlines()
        for block, new in reversed(self.edits):
            lines[block.first : block.first + len(block.lines)] = new
        if self.edits:
            self.path.write_text("\n".join(lines) + "\n")


def make_files(folder):
    """User files that the pages mention."""
    rows = "".join(f"{i % 7},{i * 5 % 11},{'xy'[i % 2]}\n" for i in range(200))
    (folder / "a.csv").write_text("f0,f1,label\n" + rows)
    pairs = "".join(
        f"{0.1 * k:.1f},{0.1 * k + 0.02 * ((k * 37 + r * 13) % 11 - 5):.3f}\n" for k in range(1, 200) for r in range(4)
    )
    (folder / "pairs.csv").write_text("target,read\n" + pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imka")
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--slow", action="store_true")
    args = parser.parse_intermixed_args()
    args.imka = str(pathlib.Path(args.imka).resolve())
    problems = []
    for path in args.pages or [ROOT / "README.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]:
        page = Page(path, args)
        with tempfile.TemporaryDirectory(prefix="imka-howto-") as folder:
            make_files(pathlib.Path(folder))
            page.run(pathlib.Path(folder))
        print(
            f"{path.name}: {page.ran} commands ran, {page.compared} outputs compared, {len(page.edits)} outputs written, {len(page.skipped)} commands skipped"
        )
        for line in page.skipped:
            print(f"  skipped: {line}")
        problems += page.problems
    print("\n".join(problems) if problems else "no differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
