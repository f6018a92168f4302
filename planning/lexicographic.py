"""Whole-number optimisation in order of importance: the first objective's optimum, among those the second's, and so on.

Solved to optimality by HiGHS's branch and bound (Huangfu and Hall, 2018) through scipy.optimize.milp.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

TIE = 1e-7
"""Objectives this close, relative to their size (to 1 below it), are a tie; below HiGHS's own tolerance of 1e-6."""


@dataclass(frozen=True)
class AtLeast:
    """coefficients · x >= bound; one coefficient a variable."""

    coefficients: Sequence[float]
    bound: float


def minimize(
    objectives: Sequence[Sequence[float]],
    rows: Sequence[AtLeast],
    lower: Sequence[float],
    upper: Sequence[float],
    integral: Sequence[bool],
) -> list[float] | None:
    """The x within [lower, upper] that keeps every row and is least by the first objective, then the next, …

    Integral variables come back whole. None where no x keeps the rows.
    """
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix = [list(row.coefficients) for row in rows]
    least = [float(row.bound) for row in rows]
    x: list[float] = []
    for objective in objectives:
        found = milp(
            objective,
            constraints=LinearConstraint(np.array(matrix).reshape(-1, len(objective)), lb=np.array(least)),
            bounds=Bounds(np.array(lower), np.array(upper)),
            integrality=np.array(integral, dtype=int),
            options={"mip_rel_gap": 0.0},
        )
        if found.status == 2:  # infeasible
            return None
        if found.x is None or found.status != 0:
            raise ArithmeticError(f"HiGHS: {found.message}")
        x = [float(round(v)) if whole else float(v) for v, whole in zip(found.x, integral, strict=True)]
        optimum = math.fsum(c * v for c, v in zip(objective, x, strict=True))
        matrix.append([-c for c in objective])
        least.append(-(optimum + TIE * max(1.0, abs(optimum))))
    return x
