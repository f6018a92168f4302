"""Functions that a test's LLM has called."""

import asyncio

WEATHER_S = 1.0


async def weather(city: str) -> str:
    """The weather in a city now."""
    await asyncio.sleep(WEATHER_S)
    return f"It is sunny in {city}."
