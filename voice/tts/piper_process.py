"""The Piper voice as a process of its own: text in on stdin, sound out on stdout.

piper-tts is GPL-3.0-or-later, so nothing else imports it; this file and the pipe are the whole interface.

    stdin   one JSON object a line: {"say": id, "text": "...", "urgent": bool} or {"cancel": id}
    stdout  messages of a header (id u32, kind u8, bytes u32, little endian) and its payload:
            kind 0 ready: JSON {"sample_rate"}; 1 sound: int16 mono; 2 end of id; 3 error of id: text

Ends when stdin does. Run by voice/tts/piper.py, not by hand.
"""

import heapq
import itertools
import json
import os
import struct
import sys
import threading
from pathlib import Path
from typing import BinaryIO

HEADER = struct.Struct("<IBI")
READY, SOUND, END, ERROR = range(4)


class Mouth:
    """Utterances that wait, the urgent first, and the thread that speaks them."""

    def __init__(self, model: Path, length_scale: float, threads: int, out: BinaryIO) -> None:
        import onnxruntime
        from piper import PiperVoice, SynthesisConfig

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._voice = PiperVoice.load(model)
        # Piper's own session takes every core it sees; ours leaves the others theirs.
        self._voice.session = onnxruntime.InferenceSession(
            str(model), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._config = SynthesisConfig(length_scale=length_scale)
        self._out = out
        self._waiting: list[tuple[int, int, int, str]] = []
        self._order = itertools.count()
        self._cancelled: set[int] = set()
        self._wake = threading.Condition()

    def announce(self) -> None:
        """Warm up, then say that the voice is ready."""
        for _ in self._voice.synthesize("Ready when you are.", self._config):
            pass
        self._send(0, READY, json.dumps({"sample_rate": self._voice.config.sample_rate}).encode())

    def say(self, number: int, text: str, urgent: bool) -> None:
        with self._wake:
            heapq.heappush(self._waiting, (not urgent, next(self._order), number, text))
            self._wake.notify()

    def cancel(self, number: int) -> None:
        with self._wake:
            self._cancelled.add(number)

    def run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting:
                    self._cancelled.clear()
                    self._wake.wait()
                _, _, number, text = heapq.heappop(self._waiting)
            self._speak(number, text)

    def _speak(self, number: int, text: str) -> None:
        try:
            if number not in self._cancelled:
                for chunk in self._voice.synthesize(text, self._config):
                    if number in self._cancelled:
                        break
                    self._send(number, SOUND, chunk.audio_int16_bytes)
            self._send(number, END)
        except Exception as error:  # noqa: BLE001 - one utterance's failure is told, the voice lives on
            self._send(number, ERROR, f"{type(error).__name__}: {error}".encode())

    def _send(self, number: int, kind: int, payload: bytes = b"") -> None:
        self._out.write(HEADER.pack(number, kind, len(payload)) + payload)
        self._out.flush()


def main() -> None:
    model, length_scale, threads = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    # Whatever a library prints must not land between the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    mouth = Mouth(model, length_scale, threads, out)
    mouth.announce()
    threading.Thread(target=mouth.run, daemon=True).start()
    for line in sys.stdin:
        order = json.loads(line)
        if "cancel" in order:
            mouth.cancel(order["cancel"])
        else:
            mouth.say(order["say"], order["text"], order["urgent"])


if __name__ == "__main__":
    main()
