"""The hook in conftest.py, in a pytest run of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
import pytest

def test_runs():
    pass

def test_skips():
    pytest.skip("there is no browser here")

@pytest.mark.xfail(reason="known")
def test_is_known_to_fail():
    assert False
"""


def _run(folder: Path, require_all: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), str(folder)]
    environment = os.environ | {"REQUIRE_ALL": require_all}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_a_skip_fails_where_all_is_required_and_only_there(folder: Path) -> None:
    (folder / "test_some.py").write_text(_TESTS)
    required, elsewhere = _run(folder, "1"), _run(folder, "0")
    assert required.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed" in required.stdout
    assert "there is no browser here" in required.stdout
    assert elsewhere.returncode == 0
    assert "1 passed, 1 skipped, 1 xfailed" in elsewhere.stdout


def test_a_module_that_skips_itself_fails_too(folder: Path) -> None:
    (folder / "test_some.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    assert _run(folder, "1").returncode not in (0, 5)
    assert _run(folder, "0").returncode == 5  # nothing was collected
