"""Exceptions. Messages state the problem, its location and the expected value."""


class Error(Exception):
    """Base of all errors of imka."""


class ConfigError(Error, ValueError):
    """An invalid argument or setting."""


class DataError(Error, ValueError):
    """An array or a file with invalid contents."""


class FileError(Error, OSError):
    """A file that cannot be read or written."""


class NumericError(Error, ArithmeticError):
    """A numerical failure, such as a singular system."""


class MissingPartError(Error, RuntimeError):
    """An optional part or a data set that is not installed."""


def missing_package(what, package):
    """The error of a function whose optional package is not installed."""
    return ImportError(f"{what} needs {package}: pip install {package}")
