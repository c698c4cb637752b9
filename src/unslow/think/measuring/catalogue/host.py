"""What the machine does while the server works; nothing is sent."""

from unslow.facts.values import Unknown
from unslow.think.measuring.catalogue._here import WHILE_GENERATING, is_here
from unslow.think.measuring.measurement import Load, Measurement

MEASUREMENT = Measurement(
    "host",
    "watching the machine while it works",
    "to see what else the machine does",
    WHILE_GENERATING,
    lambda _case: Load(seconds=3.0),
    sends=False,
    possible=lambda case: is_here(case) and isinstance(case.run.completions, Unknown),
)
