"""A check on the parts of a token from another side: for how long the GPU had nothing to do meanwhile.

The driver counts the share of time in which any kernel ran. What the server does beside the step (sampling, sending,
handing over between its threads) leaves the GPU idle, so both should come to about the same.
"""

import msgspec

from unslow.facts.telemetry import Telemetry
from unslow.think.bench.parts import STEP, Parts

_BUSY = "busy"
_CLEAR = 0.02
"""Of the token: less than this is below what the driver's counter shows, which has whole percents."""


def checked_by_idle(parts: Parts, telemetry: Telemetry | None) -> Parts:
    """The same, with the time for which the busiest GPU had nothing to do while tokens were generated."""
    busy = _gpu_busy(telemetry)
    if busy is None:
        return parts
    idle = max(0.0, 1 - busy) * parts.seconds
    step = next((part.seconds for part in parts.parts if part.name == STEP), None)
    notes = parts.notes if step is None else (*parts.notes, _idle_note(idle, parts.seconds - step, parts.seconds))
    return msgspec.structs.replace(parts, gpu_idle_s=idle, notes=notes)


def _gpu_busy(telemetry: Telemetry | None) -> float | None:
    if telemetry is None:
        return None
    decode = [gpu for phase in telemetry.phases if phase.phase == "decode" for gpu in phase.gpus]
    return max((gpu.figures[_BUSY].mean for gpu in decode if _BUSY in gpu.figures), default=None)


def _idle_note(idle: float, beside: float, whole: float) -> str:
    """Whether the GPU waited for as long as the server spent beside the step."""
    if max(idle, beside) < _CLEAR * whole:
        return "the GPU is idle for next to no time, as the parts say"
    share = f"the GPU is idle for {idle / whole:.0%} of a token, the parts beside its step are {beside / whole:.0%}"
    return share if abs(idle - beside) < max(idle, beside) / 2 else f"{share}: they do not agree"
