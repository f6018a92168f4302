"""`firstclause deploy`: the applications onto an existing Ray cluster."""

import json
from pathlib import Path

import click
from rich.console import Console

from configs.deployment import load_deployment

CLUSTER_CONFIG = Path(__file__).parents[1] / "configs" / "cluster.yaml"
DASHBOARD = "http://127.0.0.1:8265"

console = Console(stderr=True, highlight=False)


@click.command()
@click.option(
    "--address", envvar="RAY_API_SERVER_ADDRESS", default=DASHBOARD, show_default=True,
    help="The cluster's dashboard. Its token is taken from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.",
)  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path), default=CLUSTER_CONFIG, show_default="configs/cluster.yaml")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.pass_context
def deploy(ctx: click.Context, address: str, config: Path, as_json: bool) -> None:
    """Check, deploy, wait, and roll back if the new version does not come up.

    Exit code 0 when it serves (deployed or unchanged), 1 when it was refused or rolled back, 2 for bad input.
    """
    deployment = load_deployment(config)

    from serve_apps.deploying.client import DeployError
    from serve_apps.deploying.client import deploy as deploy_to
    from serve_apps.deploying.plan import plan_of

    try:
        outcome = deploy_to(address, plan_of(deployment), console.print)
    except DeployError as error:
        outcome = {"outcome": "failed", "problems": [str(error)]}
    if as_json:
        click.echo(json.dumps(outcome))
    for problem in outcome.get("problems", []):
        click.echo(f"error: {problem}", err=True)
    console.print(_said(outcome))
    ctx.exit(0 if outcome["outcome"] in ("serving", "unchanged") else 1)


def _said(outcome: dict[str, object]) -> str:
    match outcome["outcome"]:
        case "serving" | "unchanged":
            nodes = outcome["nodes"]
            assert isinstance(nodes, list)
            head = "It serves" if outcome["outcome"] == "serving" else "Nothing to change: it serves"
            return f"{head} at {', '.join(map(str, nodes))}"
        case "rolled back":
            restored = outcome["restored"]
            assert isinstance(restored, list)
            if not restored:
                return "Rolled back: nothing ran before, and nothing runs now."
            state = "serves again" if outcome["serving"] else f"does not serve yet ({outcome['said']})"
            return f"Rolled back: what ran before ({', '.join(map(str, restored))}) {state}."
        case "refused" | "busy":
            return "Nothing was changed."
    return "The deploy failed."
