"""A tool to have: the time of day."""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def time_of_day(time_zone: str = "UTC") -> str:
    """The date and the time of day now, in a time zone such as Europe/Paris."""
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return f"there is no time zone {time_zone}"
    return datetime.now(zone).strftime("%A, %B %d, %Y, %H:%M")
