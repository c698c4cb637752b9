"""What memory and arithmetic allow at most, whatever the software, at the clocks of the datasheet."""

from typing import NamedTuple

from unslow.think.claims.hosts import Host, disk, host_for
from unslow.think.claims.places import Place
from unslow.think.claims.readings import Reading

MOST_GUESSED = 9
"""Tokens of one step with speculative decoding: eight guesses, all of them right, and the next one."""
USUALLY_GUESSED = 4
"""Published speed-ups of speculative decoding are 1.5 to 3; those of the best trained heads reach 4 to 6."""


class Question(NamedTuple):
    """A model somewhere, with what decides the bytes of a token."""

    reading: Reading
    place: Place
    depth: int = 0
    """Tokens whose keys and values are read."""
    context: int = 0
    """Tokens that there must be room for."""
    gpu_layers: int | None = None
    host: Host | None = None
    by_layer: bool = False
    """Whether one device works after the other."""


class Ceiling(NamedTuple):
    """The least time of a token, and from where its bytes come."""

    tokens_per_s: float
    device_bytes: float
    host_bytes: float
    resident_tokens_per_s: float
    """If all of it lay in the device's memory."""
    host: Host
    cache_bytes: float
    disk_bytes: float = 0.0
    """Of the weights, what no memory holds."""

    @property
    def read_bytes(self) -> float:
        """All that a token reads."""
        return self.device_bytes + self.host_bytes


def one_stream(question: Question) -> Ceiling:
    """The most tokens a second of a single stream; both memories are taken to be read at the same time."""
    reading = question.reading
    place = question.place.for_model(reading.weights_bytes)
    cache = reading.cache_bytes(question.depth) or 0.0 if question.depth else 0.0
    total = reading.read_bytes + cache
    away = _bytes_away(question._replace(place=place))
    spills_to_disk = away > 0 and place.is_all_memory
    host = disk() if spills_to_disk else host_for(away, place.number, question.host)
    from_host = _read_of(reading, away)
    rate = place.read_bytes_per_s(reading.weights_bytes) / (place.number if question.by_layer else 1)
    if not place.bytes_per_s:
        return Ceiling(float("inf"), total, 0.0, float("inf"), host, cache)
    seconds = max((total - from_host) / rate, from_host / host.bytes_per_s)
    return Ceiling(
        1 / seconds, total - from_host, from_host, rate / total, host, cache, away if spills_to_disk else 0.0
    )


def _bytes_away(question: Question) -> float:
    """The least of the weights that the device can't hold, or is told not to."""
    reading, place = question.reading, question.place
    cache = (reading.cache_bytes(question.context) or 0.0) if question.context else 0.0
    by_memory = (
        reading.weights_bytes - reading.table_bytes + cache - place.capacity_bytes if place.capacity_bytes else 0.0
    )
    by_layers = 0.0
    if question.gpu_layers is not None and reading.layers and question.gpu_layers < reading.layers:
        by_layers = (reading.layers - question.gpu_layers) * reading.layer_bytes
    return max(0.0, by_memory, by_layers)


def _read_of(reading: Reading, away: float) -> float:
    """What a token reads of weights that are away: experts are put away first, of which it reads a few."""
    of_experts = min(away, reading.expert_bytes)
    share = reading.expert_share if reading.expert_bytes else 0.0
    return of_experts * share + (away - of_experts)


def prefill(reading: Reading, place: Place) -> float | None:
    """The most prompt tokens a second: two operations for each active parameter; None where nothing is known."""
    place = place.for_model(reading.weights_bytes)
    if not place.operations_per_s:
        return None
    return place.operations_per_s / (2 * max(1.0, reading.active - _output_parameters(reading)))


def _output_parameters(reading: Reading) -> float:
    """The output matrix is used for the last token of a prompt alone."""
    return reading.active * reading.output_bytes / max(1.0, reading.read_bytes) if not reading.expert_bytes else 0.0


def throughput(question: Question, users: int) -> float | None:
    """The most tokens a second of all streams together; None where their number and the arithmetic are unknown."""
    by_arithmetic = prefill(question.reading, question.place)
    by_memory = one_stream(question._replace(depth=0)).tokens_per_s * users if users else None
    return min((limit for limit in (by_arithmetic, by_memory) if limit is not None), default=None)
