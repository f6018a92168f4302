"""Whether a cluster can take a plan: what does not fit, in words, before anything is changed. Pure.

Placing is first fit, largest first: a cluster that passes has room. One that is refused might, by another packing,
have just enough; so little room to spare would not carry a rolling upgrade.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from serve_apps.deploying.plan import Needs

Resources = dict[str, float]


@dataclass(frozen=True)
class Node:
    """What one node of the cluster is and has."""

    address: str
    resources: Resources
    labels: dict[str, str] = field(default_factory=dict)
    python: str = ""
    packages: dict[str, str | None] = field(default_factory=dict)
    """Distribution -> version; None where it is not installed."""
    missing_models: tuple[str, ...] = ()
    certificate: str | None = None
    """What is wrong with the certificate there."""
    missing_secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """Replicas of one kind: each takes all of `bundles`, a bundle on one node that `labels` allow."""

    name: str
    replicas: int
    bundles: tuple[Resources, ...]
    labels: dict[str, str] = field(default_factory=dict)


def problems(needs: Needs, pieces: Sequence[Piece], nodes: Sequence[Node]) -> list[str]:
    """What does not fit, a line each; empty is good."""
    found = [line for node in nodes for line in _node_problems(needs, node)]
    return found + _placing_problems(pieces, nodes)


def _node_problems(needs: Needs, node: Node) -> list[str]:
    found = []
    if node.python != needs.python:
        found.append(f"node {node.address}: Python {node.python}, and {needs.python} is wanted")
    engine = needs.engine if allows(needs.engine_nodes, node.labels) else {}
    for name, wanted in {**needs.packages, **engine}.items():
        version = node.packages.get(name)
        if version != wanted:
            found.append(f"node {node.address}: {name} {version or 'is missing'}, and {wanted} is wanted")
    found += [
        f"node {node.address}: model {name} is not prepared; there: firstclause models prepare {name}"
        for name in node.missing_models
    ]
    if node.certificate:
        found.append(f"node {node.address}: {node.certificate}")
    found += [
        f"node {node.address}: the environment variable {name} is not set, and it holds a secret"
        for name in node.missing_secrets
    ]
    return found


def _placing_problems(pieces: Sequence[Piece], nodes: Sequence[Node]) -> list[str]:
    free = [dict(node.resources) for node in nodes]
    found = []
    for piece in sorted(pieces, key=lambda piece: -max(sum(bundle.values()) for bundle in piece.bundles)):
        placed = sum(_place(piece, nodes, free) for _ in range(piece.replicas))
        if placed < piece.replicas:
            wanted = " + ".join(_words(bundle) for bundle in piece.bundles)
            where = " on nodes with " + ", ".join(f"{k}={v}" for k, v in piece.labels.items()) if piece.labels else ""
            found.append(
                f"{piece.name}: room for {placed} of {piece.replicas} replicas, each of {wanted}{where}; the cluster "
                f"has {_words(_total(nodes))} on {len(nodes)} node{'s' * (len(nodes) != 1)}"
            )
    return found


def _place(piece: Piece, nodes: Sequence[Node], free: list[Resources]) -> bool:
    """Take a replica's bundles out of `free`; nothing is taken where not all find room."""
    trial = [dict(room) for room in free]
    for bundle in piece.bundles:
        for node, room in zip(nodes, trial, strict=True):
            if allows(piece.labels, node.labels) and all(room.get(k, 0) >= v - 1e-9 for k, v in bundle.items()):
                for kind, amount in bundle.items():
                    room[kind] -= amount
                break
        else:
            return False
    free[:] = trial
    return True


def allows(selector: dict[str, str], labels: dict[str, str]) -> bool:
    """Ray's label selector, whose values are `v`, `!v`, `in(a, b)` or `!in(a, b)`."""
    for key, wanted in selector.items():
        negated = wanted.startswith("!")
        values = wanted.removeprefix("!")
        options = values[3:-1].split(",") if values.startswith("in(") else [values]
        if (labels.get(key) in [option.strip() for option in options]) == negated:
            return False
    return True


def _total(nodes: Sequence[Node]) -> Resources:
    return {kind: sum(node.resources.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU")}


def _words(resources: Resources) -> str:
    return ", ".join(f"{amount:g} {kind}" for kind, amount in resources.items() if amount or kind == "GPU")
