"""Where a start's time goes: what vLLM's log says of its parts, and what is left of the clock for the others.

Download is not here: an engine loads a model that is prepared (`firstclause models prepare` says how long that took).
"""

import re

PARTS = {
    "weights_s": re.compile(r"Loading weights took ([\d.]+) s"),
    "compile_s": re.compile(r"torch\.compile took ([\d.]+) s in total"),
    "graphs_s": re.compile(r"Graph capturing finished in ([\d.]+) s"),
    "engine_s": re.compile(r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s"),
}
"""engine_s: profiling, the KV cache and warm-up; compilation and graphs are within it."""


def load_parts(log: str, imports_s: float, first_token_s: float, load_time_s: float) -> dict[str, float]:
    """Seconds by part, adding up to load_time_s; a part that the log does not name is absent.

    imports_s: until the engine's package was imported; first_token_s: the first request's own time. warmup_s is what
    vLLM calls the engine's initialisation without compilation and graphs, processes_s all that is left: processes
    that start and import, and the model's construction.
    """
    said = {name: sum(map(float, pattern.findall(log))) for name, pattern in PARTS.items() if pattern.search(log)}
    parts = {"imports_s": imports_s}
    parts |= {name: said[name] for name in ("weights_s", "compile_s", "graphs_s") if name in said}
    if "engine_s" in said:
        parts["warmup_s"] = max(0.0, said["engine_s"] - said.get("compile_s", 0.0) - said.get("graphs_s", 0.0))
    parts["first_token_s"] = first_token_s
    parts["processes_s"] = max(0.0, load_time_s - sum(parts.values()))
    return parts
