"""Clocks before work: processes that keep time for others ask the system for precedence where they may."""

import os

NICENESS = -10


def take_precedence() -> None:
    """Run as soon as there is something to do, whatever else this machine is busy with; without the right to, nothing
    changes. Processes started from here do not inherit it."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, PermissionError):
        try:
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        except PermissionError:
            return
