"""`firstclause plan`: the arithmetic, topic by topic."""

import json
from pathlib import Path
from typing import Any

import click

from configs.errors import InputError
from planning.render import Plan, draw, lines, report
from planning.topics import TOPICS, read_scenario, reference, source_text

PICTURES = {".png", ".svg", ".pdf"}


@click.command()
@click.argument("topic", required=False)
@click.argument("scenario", required=False, type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one input; dots reach inside.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: topic, inputs, outputs.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw it too (.png, .svg or .pdf).")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="REPORT.html", help="Where `plan all` writes its report."
)
def plan(
    topic: str | None,
    scenario: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
    plot: Path | None,
    out: Path | None,
) -> None:
    """Work out TOPIC for SCENARIO (a YAML file; without one, the topic's reference scenario).

    Without TOPIC: the topics and their questions. `plan all --out report.html`: every reference scenario in one page.
    """
    if topic in (None, "all") and (scenario or overrides or plot):
        raise click.UsageError("a scenario, --set and --plot need one TOPIC")
    if out and topic != "all":
        raise click.UsageError("--out is for `plan all`; a topic's picture is --plot")
    if topic is None:
        _list(as_json)
    elif topic == "all":
        _all(out, as_json)
    else:
        _one(topic, scenario, overrides, as_json, plot)


def _list(as_json: bool) -> None:
    questions = {name: topic.question for name, topic in TOPICS.items()}
    if as_json:
        click.echo(json.dumps({"topics": questions}))
    else:
        click.echo("\n".join(f"{name:<15} {question}" for name, question in questions.items()))


def _all(out: Path | None, as_json: bool) -> None:
    if not out:
        raise click.UsageError("`plan all` needs --out REPORT.html")
    if not out.parent.is_dir():
        raise InputError("plan", "--out", str(out), "no such folder")
    plans = []
    for name in TOPICS:
        click.echo(f"plan {name}", err=True)
        plans.append(_answer(name, reference(name), ()))
    _write(out, report(plans).encode(), "--out")
    if as_json:
        click.echo(json.dumps({"report": str(out), "plans": [plan.document() for plan in plans]}))
    else:
        click.echo("\n".join(f"{plan.name}: {plan.finding}" for plan in plans))


def _one(name: str, path: Path | None, overrides: tuple[str, ...], as_json: bool, plot: Path | None) -> None:
    if name not in TOPICS:
        raise InputError("plan", "TOPIC", name, f"no such topic; one of {', '.join(TOPICS)}, or all")
    if plot and plot.suffix not in PICTURES:
        raise InputError(
            "plan", "--plot", str(plot), f"the file's name has to end in one of {', '.join(sorted(PICTURES))}"
        )
    answered = _answer(name, path or reference(name), [override(text) for text in overrides])
    if plot:
        _write(plot, draw(answered.picture, name, plot.suffix[1:]), "--plot")
    if as_json:
        click.echo(json.dumps(answered.document()))
    else:
        _print_table(answered)


def _answer(name: str, path: Path, overrides: Any) -> Plan:
    topic = TOPICS[name]
    scenario = read_scenario(name, path, overrides)
    outputs = topic.answer(scenario, str(path))
    return Plan(name, topic, scenario, outputs, source_text(path))


def override(text: str) -> tuple[str, Any]:
    """KEY=VALUE, the value as YAML 1.2."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError("plan", "--set", text, "expected KEY=VALUE")
    try:
        return key, YAML(typ="safe", pure=True).load(value)
    except (YAMLError, ValueError) as error:
        raise InputError("--set", key, value, "not a YAML value") from error


def _write(path: Path, content: bytes, option: str) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError("plan", option, str(path), error.strerror or str(error)) from error


def _print_table(answered: Plan) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    table = Table(box=box.SIMPLE_HEAD, title=Text(answered.topic.question), title_justify="left")
    for name in ("quantity", "formula", "value", "unit"):
        table.add_column(name, justify="right" if name == "value" else "left", overflow="fold")
    for line in lines(answered):
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)
    console.print(Text(answered.finding))
