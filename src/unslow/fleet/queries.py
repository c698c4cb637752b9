"""Every question that a Prometheus is asked for a fleet: a constant number, whatever the number of instances.

Readings of all exporters are asked for together, a few in one query, joined by `or`. Each is marked with a label first:
two series can then never be taken for one another, and the answer says which metric it comes from. Buckets of
histograms are never asked for.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from unslow.catalog.exporters import Exporter, Of, exporters, exporters_of
from unslow.fleet.derived import LEAST, RATIOS, source_of_ratio
from unslow.fleet.options import Options
from unslow.fleet.promql import any_of, filled, folded, marked, source_of
from unslow.fleet.special_queries import Query, gpu_labels, special_queries

__all__ = ["PACKS", "Part", "Query", "all_queries", "parts"]

PACKS: tuple[tuple[str, Of, str, str], ...] = (
    ("load", "engine", "running running_spread", "how many requests each engine answers at once"),
    ("queue", "engine", "waiting asleep", "how many wait"),
    ("work", "engine", "generated_tokens_per_s prompt_tokens_per_s", "what it gives"),
    ("cache", "engine", "cache_used preemptions", "whether its cache is full"),
    ("token_gap", "engine", "token_gap_s_sum token_gap_s_count", "how long one token takes"),
    ("busy", "engine", "decode_tokens decode_busy_s", "the same by seconds"),
    ("first_token", "engine", "first_token_s_sum first_token_s_count queue_s_sum queue_s_count", "how long it waits"),
    ("requests", "engine", "request_s_sum request_s_count", "how long requests take"),
    ("sizes", "engine", "prompt_tokens_sum prompt_tokens_count answer_tokens_sum answer_tokens_count", "their length"),
    ("hits", "engine", "prefix_hits prefix_queries drafts_accepted drafts_made draft_acceptance", "what is saved"),
    ("settings", "engine", "context_tokens kv_tokens places", "how it is set up"),
    ("gpu_memory", "gpu", "vram_total_bytes vram_used_max_bytes", "whether models fit"),
    ("gpu_free", "gpu", "vram_free_bytes vram_reserved_bytes gtt_used_bytes", "what is left"),
    ("gpu_busy", "gpu", "busy memory_busy", "whether GPUs work"),
    ("gpu_clocks", "gpu", "clock_hz clock_max_hz memory_clock_hz", "how fast they run while they do"),
    ("gpu_heat", "gpu", "temperature_max_c memory_temperature_max_c", "how hot they are"),
    ("gpu_power", "gpu", "power_max_w", "what they draw"),
    ("gpu_limits", "gpu", "power_limit_w power_limit_default_w", "what they may draw"),
    ("gpu_held", "gpu", "reasons_told thermal_throttled power_throttled power_braked", "what holds their clocks down"),
    ("gpu_link", "gpu", "pcie_generation pcie_generation_max pcie_width pcie_width_max", "their way to the host"),
    ("host_cpu", "host", "cpus idle_cpus", "whether processors are taken"),
    ("host_memory", "host", "memory_total_bytes memory_available_bytes", "whether memory is"),
    ("host_swap", "host", "swap_total_bytes swap_free_bytes swapped_in_bytes_per_s swapped_out_bytes_per_s", "swap"),
    ("host_pressure", "host", "cpu_pressure memory_pressure io_pressure load_1min", "who waits for what"),
    ("host_heat", "host", "package_throttles numa_nodes", "heat, and memory nodes"),
    ("own_words", "own", "verdict findings finding_costs", "what `unslow exporter` says on the machines themselves"),
    ("own_speed", "own", "speed_tokens_per_s expected achievable_tokens_per_s looked_at_s", "and expects there"),
)  # fmt: skip
"""Name, of what, the readings, and why: few enough in each that an answer of ten thousand machines stays small."""


_FIRST = (
    "there", "targets", "(engine)", "up", "starts", "engine_info", "before", "images_before", "own_info", "(own)",
    "pods", "images", "containers", "host_info", "(host)", "gpu_info", "(gpu)",
)  # fmt: skip
"""The order of the queries; in brackets those of readings."""


class Part(NamedTuple):
    """What the series with one mark are."""

    quantity: str
    exporter: str
    rank: int
    """Among several expressions for the same: the lowest holds."""
    source: str


def all_queries(options: Options, there: Collection[str] | None = None) -> tuple[Query, ...]:
    """All of them, as if every exporter were there; with `there`, those that these exporters answer."""
    there = exporters() if there is None else there
    packs = [packed(name, options, there) for name, *_ in PACKS]
    found = [*special_queries(options, there), *packs]
    return tuple(sorted((query for query in found if query.promql), key=_order))


def _order(query: Query) -> int:
    """As they are asked: engines, what they were, our own words, pods, hosts, GPUs."""
    if query.name in _FIRST:
        return _FIRST.index(query.name)
    return _FIRST.index(f"({query.of})")


def packed(name: str, options: Options, there: Collection[str]) -> Query:
    """One query for a few readings; its text is empty where nobody could answer it."""
    of, quantities, why = next((of, words.split(), why) for pack, of, words, why in PACKS if pack == name)
    matchers = options.matchers(engines=of == "engine")
    terms = [
        marked(_term(exporters()[part.exporter], part, matchers, options), mark)
        for mark, part in parts(of, options.window_s).items()
        if part.exporter in there and _asked_by(exporters()[part.exporter], part.quantity) in quantities
    ]
    return Query(name, of, any_of(terms), why)


def parts(of: Of, window_s: float) -> dict[str, Part]:
    """Every mark of the readings of a kind, and what it stands for."""
    found = {
        f"{name}.{quantity}.{rank}": Part(quantity, name, rank, source_of(text, window_s))
        for name, exporter in exporters_of(of).items()
        for quantity, rank, text in _expressions(exporter)
    }
    for name, exporter in exporters_of(of).items():
        for ratio, (top, bottom) in RATIOS.items():
            for rank, _ in enumerate(exporter.readings.get(top, ("",))[1:]):
                above, below = (found[f"{name}.{part}.{rank}"].source for part in (top, bottom))
                found[f"{name}.{ratio}.{rank}"] = Part(ratio, name, rank, source_of_ratio(top, above, below))
    return found


def _asked_by(exporter: Exporter, quantity: str) -> str:
    """The word in `PACKS` that asks for it; what is divided is asked for by its upper part, and nowhere else."""
    if quantity in exporter.readings:
        return "" if any(quantity in pair and pair[0] in exporter.readings for pair in RATIOS.values()) else quantity
    return RATIOS[quantity][0]


def _expressions(exporter: Exporter) -> Iterator[tuple[str, int, str]]:
    for quantity, (_, *texts) in exporter.readings.items():
        for rank, text in enumerate(texts):
            yield quantity, rank, text


def _term(exporter: Exporter, part: Part, matchers: str, options: Options) -> str:
    if part.quantity not in exporter.readings:
        top, bottom = (_term(exporter, part._replace(quantity=one), matchers, options) for one in RATIOS[part.quantity])
        return f"{top} / ({bottom} >= {LEAST:g})"
    fold, *texts = exporter.readings[part.quantity]
    text = filled(texts[part.rank], matchers, options.window_s)
    if exporter.of == "gpu":  # which GPU it is takes few of its many labels
        return f"{fold} by ({', '.join(gpu_labels(exporter, options.labels()))}) ({text})"
    kept = ("verdict", "cause", "bound")  # they are what our own metrics tell
    own = [label for label in exporter.own if not (exporter.of == "own" and label in kept)]
    return folded(text, fold, own, exporter.same)
