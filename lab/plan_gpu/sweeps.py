"""Sweeps: stated settings of one case, from a file."""

import tomllib
from pathlib import Path

from lab.plan_gpu.serving import Arm

MOST = 24
"""Settings of a sweep, the fit's and the plan's own among them."""
BESIDE = 4
"""The fit's, and the plan's for a short and for a long prompt, and for the short one and no other work."""
_FILE = Path(__file__).with_name("sweeps.toml")


def sweeps() -> dict[str, tuple[str, list[Arm]]]:
    """The case and the arms of each."""
    told = tomllib.loads(_FILE.read_text())
    return {name: (one["case"], [Arm(s, tuple(s.split())) for s in one["settings"]]) for name, one in told.items()}
