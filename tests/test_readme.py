"""The README's commands exist, and what it names is there."""

import re
from pathlib import Path

import pytest

from tests.support.cli import ROOT, run_firstclause

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(?:sh|bash)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
OURS = sorted({" ".join(c.split()[1:2]) for c in COMMANDS if re.match(r"(?:\.venv/bin/)?firstclause ", c)})
TARGETS = sorted({c.split()[1] for c in COMMANDS if c.startswith("make ")})


def test_the_quick_start_is_the_demo() -> None:
    """tests/system/test_demo.py runs it."""
    assert COMMANDS[0].startswith("git clone")
    assert "make demo" in COMMANDS


@pytest.mark.parametrize("command", OURS)
def test_every_command_named_has_help(command: str) -> None:
    answer = run_firstclause(command, "--help")
    assert answer.returncode == 0, answer.stderr
    assert "Usage" in answer.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_named_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_file_named_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    missing = [link for link in links if not (ROOT / link).exists()]
    assert links and not missing


def test_every_folder_has_its_line() -> None:
    folders = [path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    assert folders and all(f"`{folder}/`" in README for folder in folders)
    assert Path(ROOT / "docs").is_dir() and "`docs/`" in README
