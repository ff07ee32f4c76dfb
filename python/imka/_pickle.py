"""Shared by the pickles of all classes: layout number and embedded files."""
import os
import tempfile

from . import _imka
from ._errors import DataError

_FORMAT = 1  # a change of the layout needs a new number


def stamp():
    """Layout number and version of imka, stored in every pickle."""
    return _FORMAT, _imka.version


def check_stamp(found, what, renew):
    """Rejects a pickle with another layout. renew: what to do instead, for the error message."""
    format_, version = found if isinstance(found, tuple) and len(found) == 2 else (None, "unknown")
    if format_ != _FORMAT:
        raise DataError(f"this pickle of {what} was written by imka {version} in format {format_}; "
                        f"imka {_imka.version} reads format {_FORMAT}. {renew}")


def bytes_of(save, name="file"):
    """The bytes of the file that save(path) writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        save(path)
        with open(path, "rb") as file:
            return file.read()


def from_bytes(content, load, name="file"):
    """Returns load(path) of a temporary file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return load(path)


def pack_chip(save):
    """The chip that save(path) writes, as (bytes of its file, factors, lost rows); None if there is no chip."""
    with tempfile.TemporaryDirectory() as folder:
        saved = save(os.path.join(folder, "chip"))
        if saved is None:
            return None
        path, factors, lost = saved
        with open(path, "rb") as file:
            return file.read(), list(factors), lost


def with_chip(packed, load):
    """load((path, factors, lost rows)) of a packed chip; load(None) without a chip."""
    if packed is None:
        return load(None)
    content, factors, lost = packed
    return from_bytes(content, lambda path: load((path, factors, lost)))
