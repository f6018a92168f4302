"""Imports go one way: found in every file's syntax tree, so those inside functions count too."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "configs": set(),
    "planning": {"configs"},
    "telemetry": {"configs"},
    "voice": {"configs", "planning", "telemetry"},
    "batch": {"configs", "planning", "telemetry"},
    "serve_apps": {"configs", "planning", "telemetry", "voice", "batch"},
    "loadtests": {"configs", "planning", "telemetry"},
    "cli": {"configs", "planning", "telemetry", "voice", "batch", "serve_apps", "loadtests"},
}
PIPER = {
    "voice/tts/piper_process.py"
}  # the GPL's side of the pipe; beside it only a benchmark's peer, loadtests/peers/
LAZY = {"ray", "torch", "transformers", "vllm", "scipy"}


def _files() -> list[str]:
    return [str(path.relative_to(ROOT)) for folder in MAY_IMPORT for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The top-level name of each import anywhere in `tree`, and its line; also by importlib.import_module("…")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level + (node.module or "")).split(".")[0], node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((str(of.value).split(".")[0], node.lineno) for of in node.args if isinstance(of, ast.Constant))


@pytest.mark.parametrize("file", _files())
def test_a_file_imports_only_what_its_folder_may(file: str) -> None:
    folder = file.split("/")[0]
    for name, line in imported(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        assert name, f"{file}:{line}: a relative import"
        assert name != "tests", f"{file}:{line} imports the tests"
        if name in MAY_IMPORT and name != folder:
            assert name in MAY_IMPORT[folder], f"{file}:{line}: {folder} must not import {name}"
        if name == "piper":
            assert file in PIPER or file.startswith("loadtests/peers/"), f"{file}:{line} imports piper, which is GPL"


def test_the_command_line_loads_no_heavy_package_before_it_is_needed() -> None:
    """At the top of every file under cli/ and configs/, and of serve_apps.models, whose commands must start at once."""
    for file in _files():
        if not file.startswith(("cli/", "configs/", "serve_apps/models/")):
            continue
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
            heavy = (
                {name for name, _ in imported(node)} & LAZY if isinstance(node, ast.Import | ast.ImportFrom) else set()
            )
            assert not heavy, f"{file}:{node.lineno} imports {heavy} at its top"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f():\n    from voice.llm import x", ["voice"]),
        ("import batch.store as s, serve_apps", ["batch", "serve_apps"]),
        ("import importlib\nimportlib.import_module('piper.voice')", ["importlib", "piper"]),
        ("from . import x", [""]),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, names: list[str]) -> None:
    assert [name for name, _ in imported(ast.parse(source))] == names
