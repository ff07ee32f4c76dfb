"""Parameters from the field lists of the C++ library: names, defaults and help texts are defined there only."""
import difflib
import inspect
import json
import numbers

import numpy as np

from . import _imka
from ._errors import ConfigError, missing_package


class Parameter:
    """One parameter: name, default, type and help."""

    def __init__(self, name, default, type_, help_):
        self.name, self.default, self.type, self.help = name, default, type_, help_

    @classmethod
    def of_field(cls, field):
        unit = f" [{field['unit']}]" if field["unit"] else ""
        type_ = "text or dict" if field["name"] == "chip_set" else field["type"]
        return cls(field["name"], json.loads(field["default"]), type_, field["help"] + unit)

    def document(self):
        shown = self.type.replace("|", " | ")
        default = "None (auto)" if self.default is None and "auto" in self.help else repr(self.default)
        return f"{self.name} : {shown}, default={default}\n    {self.help}."


_LISTS = {group: [Parameter.of_field(f) for f in fields] for group, fields in _imka.field_lists().items()}


def fields(group, without=()):
    """The parameters of a group: features, ridge, chip, build, read or run."""
    return [p for p in _LISTS[group] if p.name not in without]


def field(name):
    return next(p for p in _LISTS["run"] if p.name == name)


def default_seed() -> int:
    return field("seeds").default[0]


def argument_default(name):
    """The default of an argument that is in no field list."""
    return _imka.argument_defaults()[name]


def text_of(value):
    """A Python value as the text that a field parses. {"core.adc_noise": 2} becomes "core.adc_noise=2"."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ",".join(f"{name}={text_of(v)}" for name, v in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(v) for v in value)
    return str(value)


def _setting(parameter, value):
    """A value of a parameter as text. None becomes 'auto' if the parameter has this value."""
    if value is None and parameter.default is not None and "auto" not in parameter.type:
        if parameter.default != "":
            raise ConfigError(f"{parameter.name}: None; expected {parameter.type.replace('|', ' | ')}")
        value = ""
    return text_of(value)


def settings_of(values, group):
    """Keyword arguments as settings of a group, as text. Unknown names are errors."""
    known = {p.name: p for p in fields(group)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), 1)
            raise ConfigError(f"unknown setting '{name}'; " + (f"did you mean '{near[0]}'?" if near
                                                               else f"known: {', '.join(known)}"))
    return {name: _setting(known[name], value) for name, value in values.items()}


def whole(value, name):
    """An integer that C++ accepts as a seed, a row number or a size."""
    if isinstance(value, numbers.Integral) and 0 <= value < 2**64:
        return int(value)
    raise ConfigError(f"{name}: {value!r}; expected an integer from 0 to 2**64 - 1")


def number(value, name):
    """A real number."""
    if isinstance(value, numbers.Real):
        return float(value)
    raise ConfigError(f"{name}: {value!r}; expected a number")


def flag(value, name):
    """A boolean. Text is an error, because 'no' would count as true."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ConfigError(f"{name}: {value!r}; expected True or False")


def seed_of(random_state):
    """The seed from random_state: an integer is the seed itself, as in the program; other values as in scikit-learn."""
    if isinstance(random_state, numbers.Integral):
        return whole(random_state, "random_state")
    try:
        from sklearn.utils import check_random_state
    except ImportError as error:
        raise missing_package(f"random_state={random_state!r}", "scikit-learn") from error

    return int(check_random_state(random_state).randint(2**31))


def takes(parameters):
    """Class decorator: adds an __init__ that stores these keyword parameters, with signature and documentation."""
    defaults = {p.name: p.default for p in parameters}

    def decorate(cls):
        def __init__(self, **values):
            for name in values:
                if name not in defaults:
                    raise TypeError(f"{cls.__name__}() got an unexpected keyword argument '{name}'")
            for name, default in defaults.items():
                setattr(self, name, values.get(name, default))

        self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        __init__.__signature__ = inspect.Signature(
            [self] + [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d) for n, d in defaults.items()])
        __init__.__qualname__ = f"{cls.__name__}.__init__"
        cls.__init__ = __init__
        cls._parameters = parameters
        documented = "\n".join(p.document() for p in parameters)
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\nParameters\n----------\n{documented}\n"
        return cls

    return decorate
