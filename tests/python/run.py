#!/usr/bin/env python3
"""Runs the tests of the Python package with pytest, for ctest.

    run.py FOLDER [ARGUMENT ...]    FOLDER holds the built package

Exit code 77 (skipped) if the package was not built or pytest is not installed.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys

SKIPPED = 77


def main():
    folder = pathlib.Path(sys.argv[1])
    if not list(folder.glob("imka/_imka.*.so")):
        print("skipped: the Python package was not built; configure with -DIMKA_BUILD_PYTHON=ON")
        return SKIPPED
    for name, package in (("pytest", "python3-pytest"), ("sklearn", "python3-sklearn")):
        if importlib.util.find_spec(name) is None:
            print(f"skipped: {name} is not installed; apt-get install {package}")
            return SKIPPED
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    tests = pathlib.Path(__file__).resolve().parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), *sys.argv[2:]]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode


if __name__ == "__main__":
    sys.exit(main())
