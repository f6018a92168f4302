"""`firstclause`: a line a command, each imported when it is called.

Exit codes: 0 done, 1 a check or gate failed, 2 bad input or inconclusive, 3 nothing to act on, 130 Ctrl-C.
"""

import importlib
import os
import sys

import click

from configs.errors import InputError

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module:function, what it does)
    "up": ("cli.up:up", "start the local deployment"),
    "down": ("cli.up:down", "stop it"),
    "status": ("cli.up:status", "what is up, and where"),
    "deploy": ("cli.deploy:deploy", "the same applications onto an existing Ray cluster"),
    "purge": ("cli.purge:purge", "forget batch files and usage older than the configuration keeps"),
    "link": ("cli.link:link", "a link that opens a page behind a login"),
    "talk": ("cli.talk:talk", "call the voice application with a WAV, a text or the microphone"),
    "simulate": ("cli.simulate:simulate", "simulate a fleet under several rules, side by side"),
    "profile": ("cli.profile:profile", "measure this deployment's rates: what plans are fed with"),
    "tenants": ("cli.tenants:tenants", "who may call the LLM tier: keys and quotas"),
    "clocks": ("cli.clocks:clocks", "each clock under a load, beside plan clocks"),
    "usage": ("cli.usage:usage", "what tenants used, and the bill"),
    "models": ("cli.models:models", "list, prepare or prune the models"),
    "doctor": ("cli.doctor:doctor", "what is missing on this machine, and what to do"),
    "batch": ("cli.batch:batch", "batch jobs on what the callers leave idle"),
    "loadtest": ("cli.loadtest:loadtest", "load tests on an open schedule, judged by gates"),
    "plan": ("cli.plan:plan", "the arithmetic: fleets, prices, headroom, calls a replica and twelve more topics"),
}


class LazyGroup(click.Group):
    """Imports a command's module when that command is called: `plan --help` loads neither Ray nor torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, function = COMMANDS[name][0].split(":")
        command = getattr(importlib.import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="firstclause")
def firstclause() -> None:
    """A voice agent and a batch job on one LLM fleet."""


def main() -> None:
    os.environ.setdefault("LOGURU_LEVEL", "WARNING")  # pipecat's chatter is for servers' logs
    try:
        code = firstclause(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except InputError as error:
        click.echo(f"error: {error}", err=True)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
