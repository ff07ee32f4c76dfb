"""Results of the verbs: the JSON document of the program as a small object."""
from __future__ import annotations

import json


def _short(value):
    if isinstance(value, dict):
        if "mean" in value and "values" in value:
            return f"{value['mean']:.6g} ± {value.get('std', 0.0):.2g} ({len(value['values'])} seeds)"
        return "{" + ", ".join(value) + "}"
    if isinstance(value, list):
        text = ", ".join(map(str, value)) if all(not isinstance(v, (dict, list)) for v in value) else ""
        return f"[{text}]" if text and len(text) < 60 else f"list of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Result:
    """A result. Its entries are attributes and items.

    `table`: the entry that holds rows, for to_pandas and plot. `bars`: the columns of the row names and of the numbers
    that plot draws; a number may be given as 'column.entry'.
    """

    def __init__(self, data, table=None, bars=None):
        self._data, self._table, self._bars = data, table, bars

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._data[name]
        except KeyError:
            raise AttributeError(f"the result has no '{name}'; it has {', '.join(self._data)}") from None

    def __getitem__(self, name):
        return self._data[name]

    def __contains__(self, name):
        return name in self._data

    def __dir__(self):
        return [*super().__dir__(), *self._data]

    def __repr__(self):
        width = max(map(len, self._data), default=0)
        return "\n".join(f"{name:<{width}}  {_short(value)}" for name, value in self._data.items())

    def to_dict(self) -> dict:
        """A copy as plain dicts, lists, numbers and text."""
        return json.loads(json.dumps(self._data))

    def to_pandas(self):
        """The rows of the result, or one row with all its entries, as a DataFrame."""
        import pandas

        return pandas.json_normalize(self._data[self._table] if self._table else self._data)

    def plot(self, ax=None):
        """Draws the result with matplotlib: bars of its rows, or its values over seeds. Returns the axes."""
        import matplotlib.pyplot as plt

        ax = ax if ax is not None else plt.subplots()[1]
        if self._bars:
            self._draw_bars(ax)
        else:
            self._draw_seeds(ax)
        return ax

    def _draw_bars(self, ax):
        name, number = self._bars
        frame = self.to_pandas()
        ax.bar(frame[name].astype(str), frame[number])
        ax.set_ylabel(number)
        ax.tick_params(axis="x", rotation=60)

    def _draw_seeds(self, ax):
        summaries = {k: v for k, v in self._data.items() if isinstance(v, dict) and "values" in v}
        if not summaries:
            raise ValueError("nothing to plot: the result has no rows and no values over seeds")
        for name, summary in summaries.items():
            ax.plot(self._data.get("seeds", range(len(summary["values"]))), summary["values"], "o-", label=name)
        ax.set_xlabel("seed")
        ax.legend()
