"""The sixteen topics, and how a scenario is read: from a file, with overrides, its profile resolved."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from configs.errors import MISSING, InputError
from configs.schema import parse, read_yaml
from planning import (
    adapters,
    canary,
    capacity_units,
    clocks,
    fleet,
    headroom,
    ledger,
    long_context,
    offline,
    price,
    quotas,
    regions,
    soak,
    spill,
    tiers,
    voice,
)
from planning.quantities import Scenario
from planning.topic import Topic

TOPICS: dict[str, Topic[Any, Any]] = {
    "fleet": fleet.TOPIC,
    "clocks": clocks.TOPIC,
    "headroom": headroom.TOPIC,
    "adapters": adapters.TOPIC,
    "tiers": tiers.TOPIC,
    "price": price.TOPIC,
    "long-context": long_context.TOPIC,
    "voice": voice.TOPIC,
    "ledger": ledger.TOPIC,
    "spill": spill.TOPIC,
    "quotas": quotas.TOPIC,
    "soak": soak.TOPIC,
    "regions": regions.TOPIC,
    "canary": canary.TOPIC,
    "capacity-units": capacity_units.TOPIC,
    "offline": offline.TOPIC,
}

PLANS = Path(__file__).parent.parent / "configs" / "plans"


def reference(name: str) -> Path:
    """The reference scenario of a topic."""
    return PLANS / f"{name}.yaml"


def read_scenario(name: str, path: Path, overrides: Iterable[tuple[str, Any]] = ()) -> Scenario:
    """The scenario in a file, dotted keys overridden in order. Raises InputError."""
    data = _resolved(read_yaml(path), path.parent)
    for key, value in overrides:
        put(data, key, value)
        data = _resolved(data, path.parent)
    scenario: Scenario = parse(TOPICS[name].scenario, data, str(path))
    return scenario


def source_text(path: Path) -> str:
    """A scenario's file as it is written, and its profile's: where the comments say what each rate rests on."""
    files = [path, _profile_path(read_yaml(path), path.parent)]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file)


def _profile_path(data: dict[str, Any], folder: Path) -> Path | None:
    """Where a scenario's profile stands: looked up from the scenario's folder first. None where it names none."""
    named = data.get("profile")
    if not isinstance(named, str):
        return None
    return folder / named if (folder / named).exists() else Path(named)


def _resolved(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A profile that is a path becomes what that file holds."""
    path = _profile_path(data, folder)
    return data | {"profile": read_yaml(path)} if path else data


def put(data: dict[str, Any], dotted: str, value: Any) -> None:
    """data[a][b] = value for a.b; a list's parts are numbered from 0. Raises InputError where a leads nowhere."""
    *parents, last = dotted.split(".")
    place: Any = data
    for part in parents:
        place = place[_index(place, part, dotted)] if isinstance(place, list) else _inside(place, part, dotted)
    if isinstance(place, list):
        place[_index(place, last, dotted)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise InputError("--set", dotted, value, f"{'.'.join(parents)} is no mapping")


def _inside(place: Any, part: str, dotted: str) -> Any:
    if not isinstance(place, dict):
        raise InputError("--set", dotted, MISSING, f"nothing stands inside {part!r}'s parent, a {type(place).__name__}")
    return place.setdefault(part, {})


def _index(place: list[Any], part: str, dotted: str) -> int:
    if not part.isdecimal() or int(part) >= len(place):
        raise InputError("--set", dotted, MISSING, f"{part!r} is none of the {len(place)} numbers of a list, from 0")
    return int(part)
