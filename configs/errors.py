"""What is wrong with something that a user wrote.

InputError            exit code 2: the message names the source, the key and the value
"""


class InputError(ValueError):
    """Bad input from outside. A retry does not help; a corrected file or argument does."""

    def __init__(self, source: str, key: str, value: object, problem: str) -> None:
        self.source, self.key, self.value, self.problem = source, key, value, problem
        where = f"{source}: {key}" if key else source
        shown = "" if value is MISSING else f" = {_shown(value)}"
        super().__init__(f"{where}{shown}: {problem}")


MISSING = object()
"""Stands for the value of a key that is not there."""


def _shown(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
