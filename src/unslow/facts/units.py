"""Units that enter from outside; inside, everything is bytes, seconds, hertz, watts."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
KB = 10**3
MB = 10**6
GB = 10**9
MHZ = 10**6


def padded(size: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-size // step) * step
