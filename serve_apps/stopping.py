"""Being stopped in a process that drives Ray: in order, and once."""

import signal
from types import FrameType


class Stopped(BaseException):
    """A signal came: not an Exception, so that nothing on the way mistakes it for a failure."""


def stop_on(*signals: signal.Signals) -> None:
    """Raise Stopped in the main thread on the first of them; later ones are ignored.

    `ray.init` puts a handler of its own for SIGTERM in place of this one: call it again behind that.
    """

    def stop(signum: int, _: FrameType | None) -> None:
        ignore(*signals)
        raise Stopped

    for number in signals:
        signal.signal(number, stop)


def ignore(*signals: signal.Signals) -> None:
    """Nothing interrupts what follows."""
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    # Where Ray was started, its C++ handler came first and has set an alarm that aborts the process after 3 s.
    signal.alarm(0)
