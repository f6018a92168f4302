"""/metrics: what all nodes' Ray agents say of the engines, of Serve and of us, as one Prometheus page."""

import asyncio
from collections.abc import Iterable

import httpx

FAMILIES = ("ray_firstclause_", "ray_vllm_", "ray_serve_")
"""What else the agents know is of Ray's inside: a megabyte a scrape."""
TIMEOUT_S = 5.0


async def gather() -> str:
    """The page. A node that does not answer in time is left out, and said so in a comment."""
    urls = await asyncio.to_thread(_agents)
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        answers = await asyncio.gather(*(client.get(url) for url in urls), return_exceptions=True)
    texts = [answer.text for answer in answers if isinstance(answer, httpx.Response) and answer.is_success]
    missing = len(urls) - len(texts)
    return merged(texts) + (f"# {missing} of {len(urls)} nodes did not answer\n" if missing else "")


def merged(texts: Iterable[str]) -> str:
    """Several pages as one: each family's head once, then the samples of all. Samples name their replica and worker."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                if family.startswith(FAMILIES) and line not in heads.setdefault(family, []):
                    heads[family].append(line)
            elif family.startswith(FAMILIES) and line and not line.startswith("#"):
                samples.setdefault(family, []).append(line)
    return "".join(f"{line}\n" for family in heads for line in (*heads[family], *samples.get(family, ())))


def _agents() -> list[str]:
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return [f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics" for node in nodes]
