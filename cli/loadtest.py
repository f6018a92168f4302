"""`firstclause loadtest`: open-loop load on the voice application or an LLM server, judged by gates."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.loadtest_batch import batch
from configs.deployment import DEFAULT_CONFIG
from configs.errors import InputError

if TYPE_CHECKING:
    from loadtests.gates import Judgement
    from loadtests.load import LlmLoad, VoiceLoad
    from loadtests.results import Results
    from loadtests.wav import Clip

INTERRUPTED = 130

_OPTIONS = (
    click.argument("load", required=False, type=click.Path(path_type=Path)),
    click.option("--url", help="Base URL of the server, instead of the load's."),
    click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key; dots reach inside."),
    click.option("--gate", type=click.Path(path_type=Path), help="Limits to hold: configs/gates/ has some."),
    click.option("--out", type=click.Path(path_type=Path), help="Empty folder for samples, report and recordings."),
    click.option("--workers", type=click.IntRange(1, 64), default=1, help="Processes that the load is shared between."),
    click.option("--web", type=click.IntRange(1024, 65_535), help="Port of locust's page while the run goes on."),
    click.option("--allow-remote", is_flag=True, help="Let the target be another machine."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group()
def loadtest() -> None:
    """Load tests on an open schedule: requests are due when they are due, however slow the server gets.

    Exit codes: 0 done or held, 1 the gate failed, 2 inconclusive or bad input, 130 interrupted (the report so far).
    """


@loadtest.command()
@_options
def llm(**options: Any) -> None:
    """Conversations with an OpenAI-compatible server, as LOAD says (default: configs/loads/llm.yaml)."""
    _run("llm", **options)


@loadtest.command()
@_options
@click.option("--peer", type=click.Choice(["stock-pipecat"]), help="Compare with this pipeline, as it comes and tuned.")
@click.option(
    "--turns", type=click.IntRange(1, 10_000), default=100, show_default=True, help="With --peer: of each pipeline."
)
@click.option("--callers", default="1", show_default=True, metavar="N,N…", help="With --peer: callers at a time.")
@click.option(
    "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml",
    help="With --peer: the deployment that both run on.",
)  # fmt: skip
def voice(peer: str | None, turns: int, callers: str, config: Path, **options: Any) -> None:
    """Calls in real time to the voice application, as LOAD says (default: configs/loads/voice.yaml).

    With --peer, the product and another pipeline answer the questions of LOAD (default: configs/loads/peers.yaml) by
    turns, on the same models and LLM tier: on the deployment at --url, or else on one that is started for it, with
    room for as many calls as --callers needs.
    """
    if peer is None:
        _run("voice", **options)
    else:
        from cli.peers import compare_with_peer

        compare_with_peer(peer, turns, callers, config, options)


@loadtest.command()
@click.argument("user", type=click.Choice(["voice", "llm"]))
@_options
@click.option(
    "--start", "start_per_s", type=click.FloatRange(min=0, min_open=True), help="First rate; default: LOAD's."
)
@click.option(
    "--highest", "highest_per_s", type=click.FloatRange(min=0, min_open=True), default=1000.0, show_default=True
)
@click.option(
    "--tolerance", type=click.FloatRange(0.01, 1), default=0.1, show_default=True, help="Of the knee, relative."
)
def sweep(user: str, start_per_s: float | None, highest_per_s: float, tolerance: float, **options: Any) -> None:
    """Find the highest rate at which USER's load holds its gate (without --gate: 95 % within the load's SLO).

    Arrivals a second are doubled until the gate fails, then bisected. A trial ends early when the queue only grows.
    """
    from loadtests.sweep_runs import perform_sweep, sweep_report

    asked, folder, gate = _prepare(user, options)
    knee = perform_sweep(
        asked, folder, gate, start_per_s, highest_per_s, tolerance, options["workers"],
        lambda line: click.echo(line, err=True), _progress, _speak,
    )  # fmt: skip
    (folder / "report.html").write_text(sweep_report(knee), encoding="utf-8")
    document = {
        "holds_per_s": knee.holds_per_s, "fails_per_s": knee.fails_per_s, "stopped": knee.stopped,
        "trials": [{"rate_per_s": t.rate_per_s, "holds": t.holds, **t.document} for t in knee.trials],
        "report": str(folder / "report.html"),
    }  # fmt: skip
    held = "nothing held" if knee.holds_per_s is None else f"holds at {knee.holds_per_s:.4g} a second"
    failed = "" if knee.fails_per_s is None else f", fails at {knee.fails_per_s:.4g}"
    stopped = f" ({knee.stopped})" if knee.stopped else ""
    click.echo(json.dumps(document) if options["as_json"] else f"{held}{failed}{stopped}\nreport: {document['report']}")
    if any("interrupted" in trial.document["ended"] for trial in knee.trials):
        sys.exit(INTERRUPTED)
    sys.exit(0 if knee.holds_per_s is not None and not knee.stopped else 2)


@loadtest.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="REPORT.html", help="Write the comparison as a page.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def compare(first: Path, second: Path, out: Path | None, as_json: bool) -> None:
    """Compare two runs' folders: each metric's ratio, SECOND over FIRST, with its interval."""
    from loadtests.comparison import compare as compared
    from loadtests.report import comparison_report
    from loadtests.results import read_results

    one, other = read_results(first), read_results(second)
    lines = compared(one.metrics, other.metrics)
    if out:
        _write(out, comparison_report(one, other, lines))
    if as_json:
        click.echo(json.dumps({"metrics": [line.document() for line in lines]}))
        return
    for line in lines:
        low, high = (_shown(end) for end in (line.ratio.low, line.ratio.high))
        click.echo(
            f"{line.metric:<20} {line.statistic}  {line.first.value:>10.4g} {line.second.value:>10.4g} {line.unit:<6}"
            f"  ×{line.ratio.value:.3f} [{low}, {high}]{'  differs' if line.differs else ''}"
        )


@loadtest.command()
@click.option("--case", "cases", multiple=True, help="Only this case; may be repeated.")
@click.option("--peer", "peers", multiple=True, help="Compare with this tool too: locust, vllm, guidellm; or all.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the runs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def truth(cases: tuple[str, ...], peers: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """What the load tests report about scripted servers, against what is known of them.

    A peer is installed into an environment of its own, under the cache folder, when it is first asked for.
    """
    from loadtests.truth.table import check, markdown, perform

    rows = perform(cases, peers, out, lambda line: click.echo(line, err=True))
    click.echo(json.dumps({"cases": [row.document() for row in rows]}) if as_json else markdown(rows))
    wrong = check(rows)
    for line in wrong:
        click.echo(f"wrong: {line}", err=True)
    sys.exit(1 if wrong else 0)


loadtest.add_command(batch)


def _prepare(user: str, options: dict[str, Any]) -> "tuple[LlmLoad | VoiceLoad, Path, Any]":
    """The load, its folder and its gate, all checked before anything runs."""
    from cli.plan import override
    from configs.models import cache_dir
    from loadtests.gates import read_gate
    from loadtests.load import read_load
    from loadtests.results import metric_kinds
    from loadtests.run import default_folder

    overrides = dict(override(text) for text in options["overrides"])
    if options["url"]:
        overrides["url"] = options["url"]
    asked = read_load(user, options["load"], overrides)
    asked.require_loopback(options["allow_remote"])
    gate = read_gate(options["gate"], metric_kinds(asked)) if options["gate"] else None
    return asked, options["out"] or default_folder(user, cache_dir() / "loadtests"), gate


def _run(user: str, **options: Any) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from loadtests.gates import judge
    from loadtests.report import report
    from loadtests.results import gather
    from loadtests.run import NothingThere, perform

    asked, folder, gate = _prepare(user, options)
    hear = _ears(asked)
    try:
        with _progress(asked) as progress:
            run = perform(asked, folder, options["workers"], options["web"], progress=progress, speak=_speak)
    except NothingThere as error:
        raise click.ClickException(str(error)) from error
    with Progress(console=Console(stderr=True), transient=True) as analysis:
        task = analysis.add_task(f"analysing {len(run.samples)} samples", total=None)
        results = gather(run, hear, lambda done, calls: analysis.update(task, completed=done, total=calls))
    judgement = judge(gate, results.metrics, results.void) if gate else None
    _write(folder / "report.html", report(results, judgement))
    if options["as_json"]:
        click.echo(json.dumps(_document(results, judgement)))
    else:
        _print(results, judgement)
    if run.ended == "interrupted":
        sys.exit(INTERRUPTED)
    sys.exit(judgement.verdict if judgement else 2 if results.void or not run.samples else 0)


def _document(results: "Results", judgement: "Judgement | None") -> dict[str, Any]:
    from loadtests.voice_summary import summary

    document = results.document() | {"report": str(results.run.folder / "report.html")}
    if results.run.load.user == "voice":
        document["voice"] = summary(results.metrics, results.turns)
    if judgement:
        document["gate"] = {
            "verdict": judgement.verdict.name.lower(),
            "reasons": judgement.reasons,
            "lines": [str(line) for line in judgement.lines],
        }
    return document


def _speak(texts: "Sequence[str]") -> "list[Clip]":
    """The callers' voice, as `firstclause talk --say` has it."""
    from cli.talk import speak

    return speak(texts)


def _ears(asked: "LlmLoad | VoiceLoad") -> Any:
    """The recogniser for the agent's words, where the load asks for it."""
    if asked.user == "llm" or not asked.hear:
        return None
    from loadtests.ears import load_ears

    return load_ears()


def _print(results: "Results", judgement: "Judgement | None") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("metric", "samples", "p50", "p95", "max", "share or rate"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for name, metric in results.metrics.items():
        found = metric.statistics()
        if not found:
            continue
        single = found.get("share") or found.get("value")
        cells = [f"{found[key].value:.4g}" if key in found else "" for key in ("p50", "p95", "max")]
        unit = f" ({metric.unit})" if metric.unit else ""
        table.add_row(name + unit, str(len(metric.values)), *cells, f"{single.value:.4g}" if single else "")
    console.print(table)
    console.print(
        ", ".join(f"{count} {name}" for name, count in results.document()["outcomes"].items()) or "no samples"
    )
    for reason in results.void:
        console.print(f"void: {reason}")
    if judgement:
        for line in judgement.lines:
            console.print(str(line))
        console.print(f"gate: {judgement.verdict.name.lower()}")
    console.print(f"report: {results.run.folder / 'report.html'}", soft_wrap=True)


class _progress:
    """A bar on stderr while a run goes on."""

    def __init__(self, asked: "LlmLoad | VoiceLoad") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._total_s = asked.expected_s()

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        self._bar.start()
        task = self._bar.add_task("starting", total=self._total_s)

        def show(line: dict[str, Any]) -> None:
            what = f"{line['requests']} done, {line['failures']} failed, {line['in_flight']} under way"
            self._bar.update(task, completed=min(line["at_s"], self._total_s or line["at_s"]), description=what)

        return show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError("loadtest", "--out", str(path), error.strerror or str(error)) from error


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
