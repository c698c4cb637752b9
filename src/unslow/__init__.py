"""Why local inference is slow, what the hardware should give, and the proof."""

__version__ = "0.1.0"
