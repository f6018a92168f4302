"""Bytes a second of this machine: memory, host to device, disk. Measured with nothing of the engine."""

import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BUFFER_BYTES = 128 * 2**20
"""A thread's array: several times any cache."""
DISK_BYTES = 2**30
REPEATS = 5


@dataclass(frozen=True)
class Bandwidths:
    """host_to_device: None without a GPU, where memory_copy stands for it. disk_read says how it was read."""

    memory_copy_bytes_per_s: float
    host_to_device_bytes_per_s: float | None
    disk_bytes_per_s: float
    disk_read: str


def bandwidths(weights: Path, device: str) -> Bandwidths:
    """All of them; the disk's by reading `weights`."""
    disk, how = disk_bytes_per_s(weights)
    copied = memory_copy_bytes_per_s()
    return Bandwidths(copied, host_to_device_bytes_per_s() if device == "cuda" else None, disk, how)


def memory_copy_bytes_per_s() -> float:
    """STREAM's copy on all cores this process may use, its best of a few: a byte read and one written count two."""
    threads = len(os.sched_getaffinity(0))
    pairs = [(np.ones(BUFFER_BYTES // 8), np.ones(BUFFER_BYTES // 8)) for _ in range(threads)]
    best_s = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(REPEATS):
            begun = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            best_s = min(best_s, time.perf_counter() - begun)
    return 2 * BUFFER_BYTES * threads / best_s


def host_to_device_bytes_per_s() -> float:
    """From pinned memory to the first GPU, the best of a few."""
    import torch

    host = torch.ones(BUFFER_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    best_s = float("inf")
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        device.copy_(host)
        torch.cuda.synchronize()
        best_s = min(best_s, time.perf_counter() - begun)
    return BUFFER_BYTES / best_s


def disk_bytes_per_s(path: Path, limit_bytes: int = DISK_BYTES) -> tuple[float, str]:
    """Sequential reading of the file's beginning past the page cache, and how: "direct", or where the file system
    has no such reading "evicted" (the cache is told to forget the file first)."""
    evict(path)
    try:
        descriptor, how = os.open(path, os.O_RDONLY | os.O_DIRECT), "direct"
    except OSError:
        descriptor, how = os.open(path, os.O_RDONLY), "evicted"
    try:
        # Direct reading wants aligned memory, which a mapping of its own is.
        with mmap.mmap(-1, 16 * 2**20) as buffer:
            begun, done = time.perf_counter(), 0
            while done < limit_bytes and (count := os.preadv(descriptor, [buffer], done)):
                done += count
                if count < len(buffer):
                    break
            return done / (time.perf_counter() - begun), how
    finally:
        os.close(descriptor)


def evict(path: Path) -> None:
    """Tell the page cache to forget a file's clean pages, so that it is read from the disk next."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
