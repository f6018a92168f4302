"""Where things lie that cannot be made again: keys, quotas, usage. (The rest: configs.models.cache_dir.)"""

import os
from pathlib import Path


def state_dir() -> Path:
    """$FIRSTCLAUSE_CACHE/state where that is set (a deployment of its own has a state of its own); else the user's."""
    if own := os.environ.get("FIRSTCLAUSE_CACHE"):
        return Path(own).expanduser().absolute() / "state"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state").absolute() / "firstclause"
