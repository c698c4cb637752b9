"""Every name that a part of a budget can have: a fixed set, for whatever must not grow with what it is told."""

from functools import cache

from unslow.think.adapt.beside import COPIES, CROSSINGS, FETCHES, LOGPROBS, SORTING
from unslow.think.among_others import OTHERS, PROMPTS
from unslow.think.budget import CLIENT, DETOUR, PREPARING, SAMPLERS, UNEXPLAINED, WAITING, WHOLE
from unslow.think.causes import all_causes
from unslow.think.found_parts import READING, SHARED, SWAPPING
from unslow.think.physics.decode import CROWD, QUOTA, SAMPLING
from unslow.think.physics.decoding import COMPUTE, LAUNCHES, READS, ROUND_TRIP
from unslow.think.physics.host_decoding import HOST_ATTENTION, HOST_COMPUTE, HOST_LAYERS, HOST_READS
from unslow.think.physics.interconnect import LINK
from unslow.think.physics.overheads import LAUNCHED_ONE_BY_ONE

OTHER = "other"
"""What a part is called that has none of these names."""
CALIBRATED = ("weights", "operations", "experts", "rows", "vocabulary", "attention", "step")
"""The parts of a calibrated machine, by the rates that were measured."""
NAMES = frozenset({
    *CALIBRATED,
    CLIENT, COMPUTE, COPIES, CROSSINGS, CROWD, DETOUR, FETCHES, HOST_ATTENTION, HOST_COMPUTE, HOST_LAYERS, HOST_READS,
    LAUNCHED_ONE_BY_ONE, LAUNCHES, LINK, LOGPROBS, OTHERS, PREPARING, PROMPTS, QUOTA, READING, READS, ROUND_TRIP,
    SAMPLERS, SAMPLING, SHARED, SORTING, SWAPPING, UNEXPLAINED, WAITING, *WHOLE.values(),
})  # fmt: skip


def part_name(part: str) -> str:
    """The part by its fixed name: a cause that has no part in physics goes by its id, which outlives its title."""
    return part if part in NAMES else _causes().get(part, OTHER)


@cache
def _causes() -> dict[str, str]:
    return {f"{cause.title[0].lower()}{cause.title[1:]}": name for name, cause in all_causes().items()}
