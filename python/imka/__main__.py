"""The program: `imka` or `python -m imka`."""
import sys

from . import _imka


def main():
    return _imka.program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
