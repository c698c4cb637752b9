"""The largest number that still fits, found with few questions: what is left is almost a straight line."""

from collections.abc import Callable


def largest(low: int, high: int, left: Callable[[int], float]) -> int | None:
    """The largest number from low to high at which nothing is lacking (`left` is not negative); None where none is.

    More never leaves more. Each guess is where a straight line through both ends crosses zero; where the last guess
    took less than half of the range away, the middle is tried, so that a crooked line costs little.
    """
    at_low = left(low)
    if high < low or at_low < 0:
        return None
    at_high = left(high)
    if at_high >= 0:
        return high
    halve = False
    while high - low > 1:
        width = high - low
        guess = low + width // 2 if halve else low + int(width * at_low / (at_low - at_high))
        guess = min(max(guess, low + 1), high - 1)
        at_guess = left(guess)
        if at_guess >= 0:
            low, at_low = guess, at_guess
        else:
            high, at_high = guess, at_guess
        halve = (high - low) * 2 > width
    return low
