"""A run as one HTML page that needs nothing else: verdict, figures with intervals, plots with their data, and on which
machine, commit and configuration it all ran."""

import html
import json
from collections.abc import Iterable, Sequence

from loadtests.charts import Chart
from loadtests.comparison import Comparison
from loadtests.gates import Judgement
from loadtests.metrics import counts
from loadtests.results import Results
from loadtests.run_charts import charts

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0 } td, th { padding: .2rem .6rem; text-align: left;
border-bottom: 1px solid #ddd } td { font-variant-numeric: tabular-nums } svg { max-width: 100%; height: auto }
figure { margin: 1.5rem 0 } summary { cursor: pointer } pre { overflow-x: auto; background: #f6f6f6; padding: .6rem }
.pass { border-left: 6px solid #2a2; padding-left: .8rem } .fail { border-left: 6px solid #c22; padding-left: .8rem }
.inconclusive { border-left: 6px solid #c80; padding-left: .8rem }
"""
SHOWN = ("p50", "p95", "p99", "max", "mean")


def report(results: Results, judgement: Judgement | None = None) -> str:
    """The page of one run."""
    run = results.run
    parts = [
        f"<h1>Load test: {run.load.user}</h1>",
        f"<p>{len(run.samples)} of {run.planned} planned {'calls' if run.load.user == 'voice' else 'conversations'}"
        f" against {html.escape(run.load.url)}, {run.duration_s:g} s. Outcomes: {html.escape(outcomes(results))}.</p>",
        _verdict(results, judgement),
        "<h2>Figures</h2>",
        figures(results),
        "<h2>Plots</h2>",
        *(chart.html() for chart in charts(results)),
        _ran_on(results),
    ]
    return page(f"Load test: {run.load.user}", parts)


def page(title: str, parts: Iterable[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def figures(results: Results) -> str:
    """Every metric's statistics; an interval in brackets, 95 %, clustered by call or conversation."""
    rows = []
    for name, metric in results.metrics.items():
        found = metric.statistics()
        if not found:
            continue
        cells = []
        for estimate in (*(found.get(statistic) for statistic in SHOWN), found.get("share") or found.get("value")):
            text = ""
            if estimate is not None:
                text = f"{estimate.value:.4g}"
                if estimate.low is not None or estimate.high is not None:
                    text += f" [{_end(estimate.low)}, {_end(estimate.high)}]"
            cells.append(text)
        rows.append([name, metric.unit, str(metric.samples), *cells])
    return table(["metric", "unit", "samples", *SHOWN, "share or rate"], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def comparison_report(first: Results, second: Results, compared: Sequence[Comparison]) -> str:
    """Two runs on one page."""
    rows = [
        [
            line.metric, line.statistic, line.unit, f"{line.first.value:.4g}", f"{line.second.value:.4g}",
            f"{line.ratio.value:.3f} [{_end(line.ratio.low)}, {_end(line.ratio.high)}]",
            "differs" if line.differs else "",
        ]
        for line in compared
    ]  # fmt: skip
    shown = [
        (f"{line.metric} {line.statistic}", line.ratio.value, line.ratio.low, line.ratio.high)
        for line in compared
        if line.ratio.low is not None
    ]
    chart = Chart(
        "Second run over first", ("metric", "ratio", "low", "high"), shown, "×", "ranges", uprights=(("equal", 1.0),)
    )
    parts = [
        "<h1>Two load tests compared</h1>",
        f"<p>First: {html.escape(str(first.run.folder))}. Second: {html.escape(str(second.run.folder))}.</p>",
        table(["metric", "statistic", "unit", "first", "second", "ratio [95 %]", ""], rows),
        chart.html() if shown else "",
        _ran_on(first),
        _ran_on(second),
    ]
    return page("Two load tests compared", parts)


def _verdict(results: Results, judgement: Judgement | None) -> str:
    if judgement is None:
        reasons = "".join(f"<p>{html.escape(reason)}</p>" for reason in results.void)
        return f'<div class="inconclusive">{reasons}</div>' if reasons else ""
    lines = "".join(f"<li>{html.escape(str(line))}</li>" for line in judgement.lines)
    reasons = "".join(f"<p>{html.escape(reason)}</p>" for reason in judgement.reasons)
    name = judgement.verdict.name.lower()
    return f'<div class="{name}"><p>Gate: <strong>{name}</strong></p>{reasons}<ul>{lines}</ul></div>'


def _ran_on(results: Results) -> str:
    rows = [[name, value] for name, value in results.run.machine.items()]
    load = html.escape(json.dumps(results.run.load.model_dump(mode="json", exclude_none=True), indent=1))
    shown = f"<details><summary>The load</summary><pre>{load}</pre></details>"
    return f"<h2>Ran on</h2>{table(['what', 'value'], rows)}{shown}"


def outcomes(results: Results) -> str:
    """How many of each, in words."""
    found = counts(sample["outcome"] for sample in results.run.samples)
    named = ", ".join(f"{count} {name}" for name, count in found.items()) or "none"
    return named + (f"; {results.not_sent} never sent" if results.not_sent else "")


def _end(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
