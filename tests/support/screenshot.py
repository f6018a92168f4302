"""The README's picture of the page: asks a running application two questions aloud and takes a screenshot.

python -m tests.support.screenshot --url http://127.0.0.1:8000 --out docs/page.png
"""

import argparse
import tempfile
from pathlib import Path

from cli.talk import speak
from tests.support.browser import microphone, page_of, wait_for
from tests.support.clips import silence
from tests.support.talk_page import press_talk

QUESTIONS = ("What is the capital of France?", "Which river runs through it?")
GREETED_S = 8
BETWEEN_S = 14


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--out", type=Path, default=Path("docs/page.png"))
    arguments = parser.parse_args()
    first, second = speak(list(QUESTIONS))
    clips = (silence(GREETED_S, first.rate), first, silence(BETWEEN_S, first.rate), second)
    with (
        tempfile.TemporaryDirectory() as folder,
        page_of(arguments.url, *microphone(Path(folder), *clips)) as page,
    ):
        press_talk(page)
        wait_for(page, "document.querySelectorAll('.took').length === 1")
        wait_for(page, "document.querySelectorAll('.took').length === 2")
        page.screenshot(path=arguments.out)


if __name__ == "__main__":
    main()
