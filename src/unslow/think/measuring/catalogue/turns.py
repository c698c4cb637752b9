"""A conversation, of which each turn should be read only once."""

from unslow.think.measuring.catalogue._here import fits
from unslow.think.measuring.measurement import Load, Measurement

MEASUREMENT = Measurement(
    "turns",
    "holding a conversation of three turns",
    "to see whether all of it is read again at every turn",
    ("run.turns",),
    lambda _case: Load(prompt_tokens=1400, generated_tokens=112, seconds=0.2),
    possible=lambda case: fits(case, 1024),
    about=("prompt_reprocessed",),
)
