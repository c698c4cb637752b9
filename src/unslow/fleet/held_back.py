"""Where "normal" is more than is known: of an engine that is down now, whatever it did before."""

import msgspec

from unslow.think.fleet.judged import Judged
from unslow.think.fleet.report import Loss


def held_back(judged: Judged, down: str) -> Judged:
    """The same, without a verdict that what was read does not carry; what made it slow before is kept."""
    instance = judged.instance
    if not down:
        return judged
    if instance.verdict != "normal":
        return judged._replace(instance=msgspec.structs.replace(instance, notes=(*instance.notes, down)))
    lost = Loss(idle_gpu_hours=instance.lost.idle_gpu_hours, because=down)
    summary = f"It can't be told whether this is slow: {down}."
    return judged._replace(
        instance=msgspec.structs.replace(instance, verdict="cannot_tell", summary=summary, lost=lost)
    )
