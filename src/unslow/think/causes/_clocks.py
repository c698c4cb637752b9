"""The clocks of one GPU while it was watched."""

from unslow.facts.snapshot import Case
from unslow.facts.telemetry import Stat
from unslow.think.causes._watched import in_phase


def figure_of(case: Case, index: int, name: str) -> Stat | None:
    """A figure of this GPU while tokens were generated; None where it was not watched."""
    seen = in_phase(case, "decode")
    gpu = next((g for g in seen.gpus if g.index == index), None) if seen else None
    return gpu.figures.get(name) if gpu else None
