"""Results of the verbs: the JSON document of the program as a small object."""
from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ._errors import missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHOWN_ROWS = 12  # of the table in repr; to_pandas returns all
_BAR_NAMES = 30  # below the bars of a plot; with more bars, only every second, third, ... bar has a name
_LEVEL_NAMES = 40  # characters of all names that fit below the bars without rotation


def _is_summary(value):
    return isinstance(value, dict) and "mean" in value and "values" in value


def _short(value):
    if _is_summary(value):
        count = len(value["values"])
        spread = "" if value.get("std") is None else f" ± {value['std']:.2g}"
        return f"{_short(value['mean'])}{spread} ({count} {'seed' if count == 1 else 'seeds'})"
    if isinstance(value, dict):
        return "{" + ", ".join(value) + "}"
    if isinstance(value, list):
        text = ", ".join(map(str, value)) if all(not isinstance(v, (dict, list)) for v in value) else ""
        return f"[{text}]" if text and len(text) < 60 else f"list of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _entry(row, path):
    """The entry of a row; 'column.entry' for an entry of a column. None if the row does not have it."""
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _label(path):
    return path.removesuffix(".mean").replace("_", " ")


def _columns(lines):
    """Rows of texts as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines]


class Result:
    """Result of a verb: the entries of its JSON document, as attributes and items.

    Terminals and notebooks show the entries and, if one of them is a table, the main columns of its first rows.
    """

    def __init__(self, data, table=None, bars=None, columns=None):
        """table: the entry that holds rows, for repr, to_pandas and plot.

        bars: what plot draws: the columns of the table that name a bar, then the column of the numbers ('column.entry' for
        an entry of a column); without a table the names of entries, or the name of one entry that holds numbers by name.
        columns: those of the table that repr shows; default: bars.
        """
        self._data, self._table, self._bars = data, table, bars
        self._shown = columns or (bars if table and not isinstance(bars, str) else None) or ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._data[name]
        except KeyError:
            raise AttributeError(f"the result has no '{name}'; it has {', '.join(self._data)}") from None

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __iter__(self) -> Iterator[str]:
        """The names of the entries."""
        return iter(self._data)

    def __dir__(self):
        return [*super().__dir__(), *self._data]

    def _entries(self):
        return [(name, _short(value)) for name, value in self._data.items()]

    def _rows(self):
        """The shown columns of the first rows of the table as texts, below their names; and the number of other rows."""
        table = self._data.get(self._table) or []
        if not self._shown or not table:
            return [], 0
        # A column of means is shown with their spread.
        paths = [path.removesuffix(".mean") if _is_summary(_entry(table[0], path.removesuffix(".mean"))) else path
                 for path in self._shown]
        rows = [[_short(_entry(row, path)) for path in paths] for row in table[:_SHOWN_ROWS]]
        return [paths, *rows], len(table) - len(rows)

    def __repr__(self):
        lines, (rows, left) = _columns(self._entries()), self._rows()
        if rows:
            lines += ["", f"{self._table}:"] + ["  " + line for line in _columns(rows)]
        if left:
            lines.append(f"  and {left} more rows; to_pandas() returns all")
        return "\n".join(lines)

    def _repr_html_(self):
        """Two tables, for notebooks."""
        def table(lines, cell="td"):
            cells = ["".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in line) for line in lines]
            return "".join(f"<tr>{line}</tr>" for line in cells)

        rows, left = self._rows()
        text = f"<table>{table(self._entries())}</table>"
        if rows:
            text += f"<p>{html.escape(self._table)}</p><table>{table(rows[:1], 'th')}{table(rows[1:])}</table>"
        return text + (f"<p>and {left} more rows; to_pandas() returns all</p>" if left else "")

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain dicts, lists, numbers and text."""
        return json.loads(json.dumps(self._data))

    def to_pandas(self) -> DataFrame:
        """The rows of the result, or one row with all its entries, as a DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise missing_package("to_pandas", "pandas") from error

        return pandas.json_normalize(self._data[self._table] if self._table else self._data)

    def plot(self, ax: Optional[Axes] = None) -> Axes:
        """Draws the result with matplotlib: bars of its rows, or its values over seeds. Returns the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise missing_package("plot", "matplotlib") from error

        ax = ax if ax is not None else plt.subplots(layout="constrained")[1]
        if self._bars:
            self._draw_bars(ax)
        else:
            self._draw_seeds(ax)
        return ax

    def _bar_values(self):
        """Names, numbers, their spread and the label of the numbers."""
        if isinstance(self._bars, str):
            entries = self._data[self._bars]
            return list(map(_label, entries)), list(entries.values()), None, _label(self._bars)
        if not self._table:
            found = [name for name in self._bars if name in self._data]
            return list(map(_label, found)), [self._data[name] for name in found], None, None
        *columns, number = self._bars
        rows = self._data[self._table]
        first, *others = columns
        names = [", ".join([_short(_entry(row, first))] + [f"{_label(c)} {_short(_entry(row, c))}" for c in others])
                 for row in rows]
        spread = [_entry(row, number.replace(".mean", ".std")) or 0 for row in rows] if number.endswith(".mean") else None
        return names, [_entry(row, number) for row in rows], spread, _label(number)

    def _draw_bars(self, ax):
        names, numbers, spread, label = self._bar_values()
        ax.bar(range(len(names)), numbers, yerr=spread)
        named = range(0, len(names), math.ceil(len(names) / _BAR_NAMES))
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, names)) > _LEVEL_NAMES else {}
        ax.set_xticks(named, [names[i] for i in named], **turned)
        if label:
            ax.set_ylabel(label)
        if self._table and len(self._bars) == 2:
            ax.set_xlabel(_label(self._bars[0]))

    def _draw_seeds(self, ax):
        from matplotlib.ticker import MaxNLocator

        summaries = {k: v for k, v in self._data.items() if isinstance(v, dict) and "values" in v}
        if not summaries:
            raise ValueError("nothing to plot: the result has no numbers to compare; to_pandas() shows its entries")
        for name, summary in summaries.items():
            ax.plot(self._data.get("seeds", range(len(summary["values"]))), summary["values"], "o-", label=_label(name))
        ax.set_xlabel("seed")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
