#!/usr/bin/env python3
"""Generates docs/python_api.md and the stub of the estimators from the code of the package.

  generate.py            writes both
  generate.py --check    exit code 1 if one of them is not current

Needs the package on the path: PYTHONPATH=build/release/python python/generate.py
"""
import inspect
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Python adds the folder of a script to the path; this one holds the sources of the package, without the extension module.
sys.path = [p for p in sys.path if os.path.realpath(p or ".") != str(ROOT / "python")]
import imka  # noqa: E402

ESTIMATORS = ["RandomFeatures", "KernelRidgeClassifier", "KernelRidgeRegressor", "ChipProjection"]
SECTIONS = {
    "Estimators": [(name, getattr(imka, name)) for name in ESTIMATORS],
    "Chips": [("Chip", imka.Chip), ("ProgrammedChip", imka.ProgrammedChip)],
    "Networks": [(n, getattr(imka, n)) for n in ("deploy", "run", "Model", "Deployment")],
    "Attention": [(f"attention.{n}", getattr(imka.attention, n)) for n in imka.attention.__all__],
    "Verbs": [(n, getattr(imka, n)) for n in ("cost", "ridge", "gram", "sweep", "report", "evaluate", "command", "help_of")],
    "Data": [(f"datasets.{n}", getattr(imka.datasets, n)) for n in ("load", "available", "info", "fetch", "Dataset")],
    "Results": [("Result", imka.Result)],
    "Errors": [(n, getattr(imka, n)) for n in ("Error", "ConfigError", "DataError", "FileError", "NumericError",
                                               "MissingPartError")],
}
TYPES = {"number": "float", "integer": "int", "true|false": "bool", "text": "str", "text or dict": "str | dict[str, Any]"}

# Methods of scikit-learn classes, which have no type annotations.
SCORE = ["def score(self, X: Any, y: Any, sample_weight: Any = ...) -> float: ..."]
INHERITED = {
    "ClassifierMixin": SCORE,
    "RegressorMixin": SCORE,
    "TransformerMixin": ["def fit_transform(self, X: Any, y: Any = ...) -> Any: ...",  # set_output changes its type
                         "def get_feature_names_out(self, input_features: Any = ...) -> NDArray[np.object_]: ...",
                         "def set_output(self, *, transform: str | None = ...) -> {name}: ..."],
    "BaseEstimator": ["def get_params(self, deep: bool = ...) -> dict[str, Any]: ...",
                      "def set_params(self, **params: Any) -> {name}: ..."],
}


def parameter_text(p):
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    text = f"{stars}{p.name}" + (f": {p.annotation}" if p.annotation is not p.empty else "")
    return text if p.default is p.empty else f"{text} = {p.default!r}"


def signature_of(thing):
    """The signature as in the source. Those of estimators are long and in their documentation."""
    signature = inspect.signature(thing)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    texts = [parameter_text(p) for p in parameters]
    keywords = [i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY]
    if keywords and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        texts.insert(keywords[0], "*")
    result = f" -> {signature.return_annotation}" if isinstance(signature.return_annotation, str) else ""
    return f"({', '.join(texts)}){result}" if len(texts) < 12 else "(...)"


def members_of(cls):
    """Public methods and properties that imka defines; some versions of scikit-learn add others."""
    own = {}
    for base in reversed([c for c in cls.__mro__ if c.__module__.startswith("imka")]):
        own.update({n: m for n, m in vars(base).items()
                    if not n.startswith(("_", "set_")) and (not callable(m) or m.__module__.startswith("imka"))})
    return sorted(own.items())


def is_constructed(thing):
    """Whether users construct it. Functions return the classes whose parameters have no annotations."""
    if not inspect.isclass(thing) or hasattr(thing, "_parameters"):
        return True
    if issubclass(thing, Exception):
        return False
    return any(p.annotation is not p.empty for p in inspect.signature(thing).parameters.values())


def member_lines(shown, text):
    """A method or property: what it does, then its parameters."""
    lines, item = [], f"- `{shown}`"
    for line in (text or "").splitlines():
        parameter = re.match(r"(\w+) : (.*)", line)
        if parameter:
            lines.append(item)
            item = f"  - `{parameter[1]}`: {parameter[2]}"
        elif line.strip():
            item += (": " if item.endswith("`") else " ") + line.strip()
    return [*lines, item]


def describe(name, thing):
    lines = [f"### `imka.{name}`", ""]
    if is_constructed(thing):
        lines += ["```python", f"imka.{name}{signature_of(thing)}", "```", ""]
    lines += ["```text", inspect.getdoc(thing), "```", ""]
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return lines
    for member, value in members_of(thing):
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        shown = f"{member}{signature_of(function)}" if callable(function) else member
        text = inspect.getdoc(function) if callable(function) or isinstance(function, property) else None
        lines += member_lines(shown, text)
    return lines + [""]


def api_page():
    lines = ["# Python API", "", "Generated by `python/generate.py`. [python.md](python.md) explains the package.", ""]
    for title, things in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name, thing in things:
            lines += describe(name, thing)
    return "\n".join(lines).rstrip() + "\n"


def type_of(parameter):
    """The Python type of a parameter, from the type of its field."""
    if parameter.type == "number|scale":
        return "float | str"
    name = TYPES.get(parameter.type, "str" if "|" in parameter.type else "Any")
    return f"{name} | None" if parameter.default is None and name != "Any" else name


def stub():
    lines = ['"""Generated by python/generate.py."""', "from typing import Any", "", "import numpy as np",
             "from numpy.typing import NDArray",
             "from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin", "",
             "from ._verbs import Path", ""]
    for name in ESTIMATORS:
        cls = getattr(imka, name)
        mixins = [c.__name__ for c in cls.__mro__ if c.__name__ in ("ClassifierMixin", "RegressorMixin", "TransformerMixin")]
        lines += ["", f"class {name}({', '.join(mixins)}, BaseEstimator):", "    def __init__(", "        self,", "        *,"]
        lines += [f"        {p.name}: {type_of(p)} = ...," for p in cls._parameters]
        lines += ["    ) -> None: ..."]
        lines += [f"    {line.format(name=name)}" for base in [*mixins, "BaseEstimator"] for line in INHERITED[base]]
        for member, value in members_of(cls):
            if isinstance(value, property):
                lines += ["    @property", f"    def {member}(self) -> {inspect.signature(value.fget).return_annotation}: ..."]
            elif callable(value):
                signature = inspect.signature(value)
                arguments = [f"{a.name}: {a.annotation}" + (" = ..." if a.default is not a.empty else "")
                             for a in list(signature.parameters.values())[1:]]
                lines.append(f"    def {member}({', '.join(['self', *arguments])}) -> {signature.return_annotation}: ...")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main():
    files = {"docs/python_api.md": api_page(), "python/imka/_estimators.pyi": stub()}
    old = [name for name, text in files.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        for name in old:
            print(f"{name} is not current; run python/generate.py")
        return 1 if old else 0
    for name in old:
        (ROOT / name).write_text(files[name])
        print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
