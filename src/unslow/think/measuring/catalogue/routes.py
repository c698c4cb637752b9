"""The way to a server of this machine, by its name and by its address."""

from unslow.think.measuring.catalogue._here import is_here
from unslow.think.measuring.measurement import Load, Measurement

MEASUREMENT = Measurement(
    "routes",
    "connecting by name and by address",
    "to see whether the way to the server costs time",
    ("run.routes",),
    lambda _case: Load(seconds=0.5),
    possible=is_here,
    about=("client_overhead",),
)
