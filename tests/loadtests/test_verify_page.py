"""docs/VERIFY.md is rewritten a section at a time."""

from tests.verify.section import Part, replaced

MACHINE = {"processor": "p", "cores": "2", "memory": "4 GiB", "system": "Linux", "commit": "abc"}


def test_sections_are_added_and_replaced_in_place() -> None:
    page = replaced("", "voice", Part("one"), MACHINE, "2030-01-01")
    page = replaced(page, "loadtests", Part("two"), MACHINE, "2030-01-01")
    page = replaced(page, "voice", Part("three\\1", ["slow"]), MACHINE, "2030-01-02")
    assert "one" not in page and page.index("three\\1") < page.index("two")
    assert page.count("## voice\n") == page.count("## loadtests\n") == 1
    assert page.startswith("# What was verified")
    assert "**short of its floor**: slow" in page and "Every floor is met." in page
    assert "Commit abc, 2030-01-02; p, 2 cores, 4 GiB; Linux." in page
