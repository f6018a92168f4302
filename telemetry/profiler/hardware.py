"""The hardware: published figures in one table, and what this machine is. Unknown hardware has no figure, not a guess.

TABLE's figures are per GPU and dense, from NVIDIA's data sheets of the H100, H200, A100 80 GB (SXM) and L40S.
Prices: USD a GPU-hour on the market, May 2026, lowest to highest.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Hardware:
    """One accelerator, or one machine's processors. None: not known. Rates a second; flops by number format."""

    name: str
    memory_bytes: float
    memory_bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = field(default_factory=dict)
    usd_per_hour: tuple[float, float] | None = None

    @property
    def price_usd_per_hour(self) -> float | None:
        """The middle of the market's range."""
        return None if self.usd_per_hour is None else sum(self.usd_per_hour) / 2


HOPPER = {"bf16": 989e12, "fp8": 1979e12, "int8": 1979e12}
AMPERE = {"bf16": 312e12, "int8": 624e12}
ADA = {"bf16": 362e12, "fp8": 733e12, "int8": 733e12}
TABLE = {
    # as nvidia-smi calls it
    "NVIDIA H100 80GB HBM3": Hardware("H100 SXM 80 GB", 80e9, 3.35e12, HOPPER, (1.99, 5.00)),
    "NVIDIA H200": Hardware("H200 SXM 141 GB", 141e9, 4.8e12, HOPPER, (2.50, 7.00)),
    "NVIDIA A100-SXM4-80GB": Hardware("A100 SXM 80 GB", 80e9, 2.0e12, AMPERE, (0.80, 3.00)),
    "NVIDIA L40S": Hardware("L40S 48 GB", 48e9, 0.864e12, ADA, (0.80, 1.50)),
}


def detect(device: str) -> Hardware:
    """This machine's GPU for device "cuda", else its processors. Raises OSError where no GPU answers."""
    return _gpu() if device == "cuda" else _processors()


def of_gpu(name: str, memory_mib: float) -> Hardware:
    """The table's GPU of that name; one that is not there has nothing but its name and memory."""
    return TABLE.get(name, Hardware(name, memory_mib * 2**20))


def processor_name(cpuinfo: str) -> str:
    """The model in /proc/cpuinfo's text."""
    names = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def _gpu() -> Hardware:
    command = shutil.which("nvidia-smi")
    if command is None:
        raise OSError("device: cuda, but there is no nvidia-smi here")
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode or not done.stdout.strip():
        raise OSError(f"device: cuda, but nvidia-smi names no GPU: {done.stderr.strip() or done.stdout.strip()}")
    name, _, memory_mib = done.stdout.strip().splitlines()[0].rpartition(",")
    return of_gpu(name.strip(), float(memory_mib))


def _processors() -> Hardware:
    """Bandwidth is measured (bandwidth.py); no peak: the flags tell a vector's width, but neither the number of units
    that work on it nor the clock under load."""
    try:
        name = processor_name(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        name = "unknown processor"
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Hardware(f"no GPU: {name}, {os.cpu_count()} cores", float(memory_bytes))
