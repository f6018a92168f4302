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
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

HEADER = struct.Struct("<IBI")
READY, SOUND, END, ERROR = range(4)


MARGIN_FRAMES = 16
"""Frames of latent to each side of a piece: from 12 on, the pieces are the whole to a tenth of a 16-bit step."""
PIECE_FRAMES = (24, 48, 96)
"""The first pieces, short so that sound starts early; the last size repeats. A frame is 256 samples."""
LOUDEST = 0.9
MOST_GAIN = 4.0


class SplitVoice:
    """A Piper voice in two graphs (serve_apps/models/split_vits.py), spoken piece by piece.

    Piper scales each sentence to full volume, which needs all of it; here one gain is found at the start.
    """

    def __init__(self, folder: Path, length_scale: float, threads: int) -> None:
        import onnxruntime
        from piper import PiperVoice
        from piper.config import PiperConfig

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # A thread that spins for work takes its core from the recognizer and the LLM.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        encoder, self._decoder = (
            onnxruntime.InferenceSession(str(folder / name), sess_options=options, providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "decoder.onnx")
        )
        config = PiperConfig.from_dict(json.loads((folder / "voice.json").read_text()))
        self._voice = PiperVoice(session=encoder, config=config)
        self._scales = np.array(
            [config.noise_scale, length_scale * config.length_scale, config.noise_w_scale], np.float32
        )
        self._latent = self._decoder.get_inputs()[0].name
        self.sample_rate = config.sample_rate
        self._gain = 1.0
        whole = np.concatenate(list(self._sounds("Ready when you are, and glad to help.")))
        self._gain = min(MOST_GAIN, LOUDEST / max(1e-3, float(np.abs(whole).max())))

    def say(self, text: str) -> Iterator[bytes]:
        """int16 mono PCM of `text`, in pieces as they are made."""
        for sound in self._sounds(text):
            yield (np.clip(sound * self._gain, -1, 1) * 32767).astype(np.int16).tobytes()

    def _sounds(self, text: str) -> "Iterator[np.ndarray]":
        for phonemes in self._voice.phonemize(text.replace("\x00", " ")):
            if phonemes:
                yield from self.decode(self.encode(self._voice.phonemes_to_ids(phonemes)))

    def encode(self, ids: list[int]) -> "np.ndarray":
        """Phoneme ids -> latent, shape (1, channels, frames)."""
        inputs = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": self._scales,
        }
        latent: np.ndarray = self._voice.session.run(None, inputs)[0]
        return latent

    def decode(self, latent: "np.ndarray", pieces: tuple[int, ...] = PIECE_FRAMES) -> "Iterator[np.ndarray]":
        """Latent -> float samples, shape (n,), piece by piece."""
        frames, start = latent.shape[2], 0
        sizes = itertools.chain(pieces, itertools.repeat(pieces[-1]))
        while start < frames:
            end = min(frames, start + next(sizes))
            first, last = max(0, start - MARGIN_FRAMES), min(frames, end + MARGIN_FRAMES)
            sound = self._decoder.run(None, {self._latent: latent[:, :, first:last]})[0].reshape(-1)
            samples = len(sound) // (last - first)
            yield sound[(start - first) * samples : (end - first) * samples]
            start = end


class Mouth:
    """Utterances that wait, the urgent first, and the thread that speaks them."""

    def __init__(self, voice: SplitVoice, out: BinaryIO) -> None:
        self._voice, self._out = voice, out
        self._waiting: list[tuple[int, int, int, str]] = []
        self._order = itertools.count()
        self._cancelled: set[int] = set()
        self._wake = threading.Condition()

    def announce(self) -> None:
        """Say that the voice is ready (its start warmed it up)."""
        self._send(0, READY, json.dumps({"sample_rate": self._voice.sample_rate}).encode())

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
                for sound in self._voice.say(text):
                    if number in self._cancelled:
                        break
                    self._send(number, SOUND, sound)
            self._send(number, END)
        except Exception as error:  # noqa: BLE001 - one utterance's failure is told, the voice lives on
            self._send(number, ERROR, f"{type(error).__name__}: {error}".encode())

    def _send(self, number: int, kind: int, payload: bytes = b"") -> None:
        self._out.write(HEADER.pack(number, kind, len(payload)) + payload)
        self._out.flush()


def main() -> None:
    folder, length_scale, threads = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    # Whatever a library prints must not land between the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    mouth = Mouth(SplitVoice(folder, length_scale, threads), out)
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
