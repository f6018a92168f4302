"""docs/VERIFY.md: a section a part, each between its own two marks."""

import re
from dataclasses import dataclass, field

HEAD = """# What was verified, and the figures

Each section is written by `make verify PART=…` on the machine and the commit that it names; nothing here is typed.
"""


@dataclass(frozen=True)
class Part:
    """What a part found: Markdown, and the floors that were not met, a line each."""

    text: str
    short: list[str] = field(default_factory=list)


def replaced(page: str, name: str, part: Part, machine: dict[str, str], day: str) -> str:
    """The page with this part's section new, at its old place or at the end."""
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}; {machine['system']}"
    verdict = "\n".join(f"- **short of its floor**: {line}" for line in part.short) or "Every floor is met."
    section = (
        f"<!-- {name}: begin -->\n## {name}\n\nCommit {machine['commit']}, {day}; {where}.\n\n{verdict}\n\n"
        f"{part.text.strip()}\n<!-- {name}: end -->\n"
    )
    old = re.compile(rf"<!-- {re.escape(name)}: begin -->\n.*?<!-- {re.escape(name)}: end -->\n", re.DOTALL)
    if old.search(page):
        return old.sub(lambda _: section, page, count=1)
    return f"{page.strip() or HEAD.strip()}\n\n{section}"
