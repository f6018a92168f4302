"""How a plan is shown: its lines, its closing sentence, its picture, and all plans in one page."""

import base64
import html
import io
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from planning.quantities import Outputs, Scenario
from planning.topic import Picture, Topic, steps


@dataclass(frozen=True)
class Plan:
    """A topic's answer to one scenario; source_text: the file or files it came from, with their comments."""

    name: str
    topic: Topic[Any, Any]
    scenario: Scenario
    outputs: Outputs
    source_text: str

    @property
    def finding(self) -> str:
        return self.topic.finding(self.scenario, self.outputs)

    @property
    def picture(self) -> Picture:
        return self.topic.picture(self.scenario, self.outputs)

    def document(self) -> dict[str, Any]:
        """What --json prints: everything in full precision."""
        return {
            "topic": self.name,
            "inputs": self.scenario.model_dump(mode="json", exclude_none=True),
            "outputs": self.outputs.model_dump(mode="json"),
        }


class Line(NamedTuple):
    """One line of a plan's table, as text."""

    quantity: str
    formula: str
    value: str
    unit: str


def lines(plan: Plan) -> list[Line]:
    """The inputs as given, then every output with its formula; what holds several values gets a line each."""
    measured = {name: set(value.model_extra or ()) for name, value in plan.scenario if isinstance(value, BaseModel)}
    inputs = plan.scenario.model_dump(exclude_none=True, exclude=measured)  # what else a profile's file holds
    rows = [Line(name, "given", value, "") for key, v in inputs.items() for name, value in _flat(key, v)]
    for step in steps(plan.outputs):
        flat = _flat(step.quantity, step.value)
        rows += [Line(name, "" if i else step.formula, value, step.unit) for i, (name, value) in enumerate(flat)]
    return rows


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    """Name and text of a value, or, where it is a mapping or a list of mappings, of each value in it."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict) and value:
        return [(f"{name}.{key}", shown(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        return [(f"{name}.{i}", shown(item)) for i, item in enumerate(value)]
    return [(name, shown(value))]


def shown(value: Any) -> str:
    """A value for the eye: four significant digits, thousands apart; long lists by their length and range."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if value is None or value in ({}, [], ()):
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        if len(value) > 12 and all(isinstance(item, int | float) for item in value):
            return f"{len(value)} values, {shown(min(value))} to {shown(max(value))}"
        return f"[{', '.join(shown(item) for item in value)}]"
    if isinstance(value, str | bool):
        return str(value)
    return _number(value)


def _number(value: float) -> str:
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e7):
        return f"{value:,.0f}"
    magnitude = math.floor(math.log10(abs(value)))
    if not -3 <= magnitude < 7:
        power = 3 * (magnitude // 3)
        return f"{value / 10**power:.4g}e{power}" if abs(power) < 300 else f"{value:.4g}"
    text = f"{value:,.{max(0, 3 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def draw(picture: Picture, title: str, kind: str) -> bytes:
    """The picture as a file of this kind (png, svg, pdf)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, (label, values) in enumerate(picture.series.items()):
        heights = [math.nan if value is None else value for value in values]
        if picture.bars:
            width = 0.8 / len(picture.series)
            axes.bar([x + i * width for x in range(len(picture.x))], heights, width, align="edge", label=label)
        else:
            axes.plot([float(x) for x in picture.x], heights, label=label)
    if picture.bars:
        axes.set_xticks([x + 0.4 for x in range(len(picture.x))], [str(x) for x in picture.x])
        if sum(len(str(x)) for x in picture.x) > 70:
            axes.tick_params(axis="x", rotation=25)
    axes.set(title=title, xlabel=picture.x_label, ylabel=picture.y_label)
    if len(picture.series) > 1:
        axes.legend()
    axes.grid(alpha=0.3)
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=110)
    return file.getvalue()


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0 } td, th { padding: .2rem .6rem; text-align: left;
border-bottom: 1px solid #ddd; vertical-align: top } td.value { text-align: right; font-variant-numeric: tabular-nums }
img { max-width: 100% } .finding { border-left: 4px solid #26c; padding-left: .8rem } section { margin-bottom: 4rem }
.wide { overflow-x: auto } summary { cursor: pointer } pre { overflow-x: auto; background: #f6f6f6; padding: .6rem }
"""


def report(plans: list[Plan]) -> str:
    """One HTML page that needs nothing else: every plan's sentence, table, picture, its data, and the scenario."""
    contents = "".join(
        f'<li><a href="#{plan.name}">{plan.name}</a>: {_text(plan.topic.question)}</li>' for plan in plans
    )
    body = "".join(_section(plan) for plan in plans)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Plans</title><style>{STYLE}</style></head>'
        f"<body><h1>Plans</h1><ol>{contents}</ol>{body}</body></html>\n"
    )


def _section(plan: Plan) -> str:
    picture = plan.picture
    image = base64.b64encode(draw(picture, plan.name, "png")).decode()
    data = [[shown(x), *(shown(values[i]) for values in picture.series.values())] for i, x in enumerate(picture.x)]
    return (
        f'<section id="{plan.name}"><h2>{plan.name}</h2><p>{_text(plan.topic.question)}</p>'
        f'<p class="finding">{_text(plan.finding)}</p>'
        f'<img alt="{plan.name}: {_text(picture.y_label)}" src="data:image/png;base64,{image}">'
        f"<details><summary>The picture's data</summary>{_table([picture.x_label, *picture.series], data)}</details>"
        f"{_table(Line._fields, lines(plan))}"
        f"<details><summary>The scenario and its sources</summary><pre>{_text(plan.source_text)}</pre></details>"
        "</section>"
    )


def _table(head: Any, rows: Any) -> str:
    cells = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    number = text[:1].isdigit() or text[:1] == "-"
    kind = ' class="value"' if number else ""
    return f"<td{kind}>{_text(text)}</td>"


def _text(text: str) -> str:
    return html.escape(text)
