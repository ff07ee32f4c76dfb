#!/usr/bin/env python3
"""Runs imka with bad inputs: every verb and option, damaged files, closed and full streams, limits, signals.

Every run must end in time with the right exit code and a short message; no control character reaches the terminal, no
result is nan or inf, no half-written file is left. Exit code 1: a run did not.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import cases
import program
import runner
import samples

QUICK = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imka", help="the program")
    parser.add_argument("--only", metavar="REGEX", help="only cases whose title matches")
    parser.add_argument("--list", action="store_true", help="print the titles of the cases and end")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time (%(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random damage and of the choice of cases (%(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help=f"about {QUICK} cases")
    parser.add_argument(
        "--all",
        action="store_true",
        help="every option in full in every verb; otherwise options that several verbs share are tested in full "
        "in one of them and by a few values in the others",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the cases, chosen by the seed")
    parser.add_argument("--verbose", action="store_true", help="print every case with its exit code")
    return parser.parse_args()


class Runs:
    """The program, its samples and a pool of threads."""

    def __init__(self, imka, work, jobs):
        self.imka, self.work, self.samples = imka, work, work / "in"
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def plain(self, verb, args):
        case = runner.Case(verb, "plain", "", args, cases.ALWAYS, limit=90)
        return runner.run_case(self.imka, case, self.samples, self.work)[1]

    def base_for(self, verb, option):
        """The first base in which a valid value of the option is accepted, or the first of all."""
        bases = [base for base, _ in cases.probes(verb, option)]
        if len(bases) == 1:
            return bases[0]
        for base, args in cases.probes(verb, option):
            if self.plain(verb.name, args).code == 0:
                return base
        return bases[0]


def option_cases(runs, verbs, args, rng):
    pairs = [(verb, option) for verb in verbs for option in verb.options]

    def base(pair):
        first = cases.bases_of(*pair)[0]
        wanted = not args.only or any(
            re.search(args.only, c.title()) for c in cases.option_cases(*pair, first, random.Random(0))
        )
        return first if args.quick or not wanted else runs.base_for(*pair)

    bases = list(runs.pool.map(base, pairs))
    places = collections.defaultdict(list)
    for verb, option in pairs:
        places[option.shape()].append(verb.name)
    for (verb, option), base in zip(pairs, bases):
        found = list(cases.option_cases(verb, option, base, rng))
        shared = places[option.shape()]
        full = args.all or verb.name == shared[len(option.name) % len(shared)]
        yield from found if full else rng.sample(found, min(3, len(found)))
        yield from cases.idle_cases(verb, option)


def every_case(runs, verbs, args):
    rng = random.Random(args.seed)
    yield from option_cases(runs, verbs, args, rng)
    yield from cases.file_cases(runs.samples, rng)
    working = [verb for verb in verbs if not (args.quick and verb.name in cases.SLOW)]
    results = runs.pool.map(
        lambda v: runs.plain(v.name, v.name.split() + cases.BASES.get(v.name, [""])[0].split()), working
    )
    for verb, result in zip(working, results):
        yield from cases.environment_cases(verb, result)
    yield from cases.signal_cases(rng)
    yield from cases.special_cases()


def chosen(found, args):
    if args.only:
        found = [case for case in found if re.search(args.only, case.title())]
    if args.sample and args.sample < len(found):
        found = random.Random(args.seed).sample(found, args.sample)
    if not args.quick:
        return found
    # The same number of cases of every class, without slow ones.
    quick = [
        c
        for c in found
        if c.kind not in ("too large", "pipe")
        and c.verb not in cases.SLOW
        and "bomb" not in c.name
        and "endless" not in c.name
    ]
    by_kind = collections.defaultdict(list)
    for case in quick:
        by_kind[case.kind].append(case)
    rng = random.Random(args.seed)
    share = max(1, QUICK // len(by_kind))
    return [case for group in by_kind.values() for case in rng.sample(group, min(share, len(group)))]


def can_mount(work):
    return os.geteuid() == 0 and os.system(f"unshare -m mount -t tmpfs tmpfs '{work}' 2>/dev/null") == 0


def usable(found, work):
    """The cases that this machine can run, and the numbers of those left out."""
    skipped = collections.Counter()
    mount = can_mount(work)
    kept = []
    for case in found:
        if "mount -t tmpfs" in case.before and not mount:
            skipped["full disk: cannot mount a small disk"] += 1
        elif case.user is not None and os.geteuid() == 0 and not os.access("/usr/bin/setpriv", os.X_OK):
            skipped["permissions: cannot give up root"] += 1
        else:
            kept.append(case)
    return kept, skipped


def run_all(runs, found, verbose):
    failures = []
    tally = collections.Counter()
    began = time.monotonic()

    def one(case):
        return (case, *runner.run_case(runs.imka, case, runs.samples, runs.work))

    for done, future in enumerate(concurrent.futures.as_completed([runs.pool.submit(one, case) for case in found]), 1):
        case, problems, result = future.result()
        tally[case.verb, case.kind] += 1
        if problems:
            failures.append((case, problems, result))
        if verbose:
            print(f"{result.code:4d} {result.seconds:5.1f} s  {case.title()[:150]!r}")
        elif done % 250 == 0 or done == len(found):
            print(
                f"{done} of {len(found)} cases, {len(failures)} failures, {time.monotonic() - began:.0f} s", flush=True
            )
    return failures, tally


def print_failures(runs, failures):
    by_problem = collections.defaultdict(list)
    for case, problems, result in failures:
        for problem in problems:
            by_problem[case.kind, re.sub(r"\d{4,}|: .*", "", problem)].append((case, problem, result))
    for (kind, problem), group in sorted(by_problem.items()):
        print(f"\n{kind}: {problem}: {len(group)}")
        for case, exact, result in sorted(group, key=lambda g: g[0].title()):
            print(f"  {case.title()[:160]!r}: {exact[:200]}")
            print(f"    {case.shown(runs.imka)}")
            first = result.err.decode("utf-8", "backslashreplace").strip().splitlines()
            if first:
                print(f"    {first[-1][:200]!r}")


def print_table(tally, failures):
    failed = collections.Counter((case.verb, case.kind) for case, _, _ in failures)
    for title, index in (("verb", 0), ("class", 1)):
        print(f"\n{title:16}{'cases':>8}{'failed':>8}")
        for name in sorted({key[index] for key in tally}):
            keys = [key for key in tally if key[index] == name]
            print(f"{name:16}{sum(tally[k] for k in keys):>8}{sum(failed[k] for k in keys):>8}")


def main():
    args = arguments()
    # The program would keep ignoring the signals that its caller ignores, as under nohup.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    imka = str(pathlib.Path(args.imka).resolve())
    work = pathlib.Path(tempfile.mkdtemp(prefix="imka-hostile-"))
    work.chmod(0o755)
    (work / "in").mkdir()
    failures = []
    runs = Runs(imka, work, args.jobs)
    try:
        samples.make(imka, work / "in")
        found, skipped = usable(chosen(list(every_case(runs, program.read_verbs(imka), args)), args), work)
        if args.list:
            print("\n".join(ascii(case.title()[:200])[1:-1] for case in found))
            return 0
        failures, tally = run_all(runs, found, args.verbose)
        print_failures(runs, failures)
        print_table(tally, failures)
        for reason, count in skipped.items():
            print(f"{count} cases skipped: {reason}")
        print(f"{len(found)} cases, {len(failures)} failures")
        if failures:
            print(f"samples kept in {work}/in; repeat a command in a folder where 'in' leads there")
        return 1 if failures else 0
    finally:
        runs.pool.shutdown(cancel_futures=True)
        if not failures:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
