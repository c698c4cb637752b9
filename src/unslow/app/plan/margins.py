"""What stays free on each GPU."""

from collections.abc import Sequence

from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.think.hardware import Room
from unslow.think.plan.llama_cpp.runnable import MARGIN_BYTES


def margin_of(request: PlanRequest, rooms: Sequence[Room]) -> int:
    """As asked, else the usual one; UserError where it leaves nothing of any GPU."""
    if request.margin_bytes is None:
        return MARGIN_BYTES
    largest = max((room.capacity_bytes for room in rooms), default=0)
    if rooms and request.margin_bytes >= largest:
        asked = f"--margin {request.margin_bytes / GIB:.3g} GiB is to stay free of a GPU of {largest / GIB:.3g} GiB"
        raise UserError(asked, "give a smaller one, or --device cpu to leave the GPU out")
    return request.margin_bytes
