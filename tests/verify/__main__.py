"""The long checks, part by part; each rewrites its own section of docs/VERIFY.md and leaves the others alone.

    python -m tests.verify loadtests

A part is a module here with `verify(say) -> Part`. Exit 1 where a floor is not met: the section says which.
"""

import importlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from loadtests.machine import machine
from tests.verify.section import Part, replaced

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "VERIFY.md"
NOT_PARTS = {"__main__", "__init__", "section", "suite"}


def parts() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_PARTS)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in parts():
        sys.exit(f"usage: python -m tests.verify PART, PART one of: {', '.join(parts())}")
    name = sys.argv[1]
    os.environ.setdefault("LOGURU_LEVEL", "WARNING")
    ran_on = machine()
    part: Part = importlib.import_module(f"tests.verify.{name}").verify(lambda line: print(line, file=sys.stderr))
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(replaced(page, name, part, ran_on, datetime.now(UTC).date().isoformat()), encoding="utf-8")
    for line in part.short:
        print(f"short of its floor: {line}", file=sys.stderr)
    sys.exit(1 if part.short else 0)


if __name__ == "__main__":
    main()
