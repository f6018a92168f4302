"""The front of the LLM tier: keys, admission, manners, clocks and the books."""
