"""Checks of the whole: validation against others, conclusions, benchmarks; nothing imports them."""
