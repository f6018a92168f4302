"""A picture and the very numbers it was drawn from: what is drawn is what the table beside it holds."""

import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[float | str | None, ...]


@dataclass(frozen=True)
class Chart:
    """`rows` have an x and then a value a series, in `columns`' order; None leaves a gap."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    y_label: str
    kind: Literal["line", "points", "bars", "ranges"] = "line"
    """ranges: a row is a name, a value and its interval's two ends."""
    log_y: bool = False
    marks: tuple[tuple[str, float], ...] = ()
    """Named horizontal lines, as an SLO."""
    uprights: tuple[tuple[str, float], ...] = ()
    """Named vertical lines, as a knee."""

    def svg(self) -> str:
        """As inline SVG, text kept as text."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context({"svg.fonttype": "none", "svg.hashsalt": self.title, "font.family": "sans-serif"}):
            height = 1 + 0.22 * len(self.rows) if self.kind == "ranges" else 3.6
            figure = Figure(figsize=(8, height), layout="constrained")
            axes = figure.subplots()
            if self.kind == "bars":
                self._bars(axes)
            elif self.kind == "ranges":
                self._ranges(axes)
            else:
                axes.ticklabel_format(useOffset=False)
                for number, name in enumerate(self.columns[1:], 1):
                    points = [row for row in self.rows if row[number] is not None]
                    xs: list[Any] = [row[0] for row in points]
                    ys: list[Any] = [row[number] for row in points]
                    axes.plot(xs, ys, "o" if self.kind == "points" else "-", label=name, markersize=3)
            for draw, lines in ((axes.axhline, self.marks), (axes.axvline, self.uprights)):
                for name, value in lines:
                    draw(value, linestyle="--", linewidth=1, color="#a33", label=name)
            if self.log_y and any(isinstance(v, float) and v > 0 for row in self.rows for v in row[1:]):
                axes.set_yscale("log")
            labels = (self.columns[0], self.y_label)
            x_label, y_label = labels[::-1] if self.kind == "ranges" else labels
            axes.set(title=self.title, xlabel=x_label, ylabel=y_label)
            if len(self.columns) > 2 or self.marks or self.uprights:
                axes.legend(fontsize="small")
            axes.grid(alpha=0.3)
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
        drawing = file.getvalue()
        return drawing[drawing.index("<svg") :]

    def _bars(self, axes: "Axes") -> None:
        below = [0.0] * len(self.rows)
        names = [str(row[0]) for row in self.rows]
        for number, name in enumerate(self.columns[1:], 1):
            heights = [float(row[number] or 0.0) for row in self.rows]
            axes.bar(names, heights, bottom=below, label=name)
            below = [a + b for a, b in zip(below, heights, strict=True)]

    def _ranges(self, axes: "Axes") -> None:
        rows: list[Any] = list(reversed(self.rows))
        for name, value, low, high in rows:
            axes.plot([low, high], [name, name], "-", color="#26c", linewidth=1.5)
            axes.plot([value], [name], "o", color="#26c", markersize=4)

    def html(self) -> str:
        """The drawing, and its data in a table under it."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in self.rows)
        return (
            f'<figure>{self.svg()}<details><summary>The data of "{html.escape(self.title)}" ({len(self.rows)} rows)'
            f"</summary><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details></figure>"
        )


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return html.escape(value)
    return "" if math.isnan(value) else f"{value:.5g}"
