"""Which causes that nobody could rule out may explain a loss of this size, the most likely first."""

import math

from unslow.catalog.causes import frequency
from unslow.think.causes import all_causes
from unslow.think.predict import DECODE
from unslow.think.report import SubjectReport, Untold

MOST_NAMED = 3
_ROUGHLY = 1.25
"""By which factor a loss may be off what a cause can cost: both rest on a prediction."""
_COSTS = {
    # the CPU computes all, or pages are fetched: RAM is read 5 to 50 times slower than GPU memory, a disk slower still
    "gpu_backend_not_loaded": (3.0, math.inf),
    "gpu_architecture_unsupported": (3.0, math.inf),
    "weights_streamed_from_disk": (3.0, math.inf),
    "type_without_gpu_kernel": (2.0, math.inf),
    "swapping": (3.0, math.inf),
    # one layer of many on the CPU, or a part of the cache
    "output_layer_on_cpu": (1.1, 2.5),
    "kv_cache_on_host": (1.1, 6.0),
    # clocks and power fall to a half or a third before a card gives up
    "gpu_thermal_throttling": (1.1, 4.0),
    "gpu_power_capped": (1.05, 2.5),
    "gpu_shared_with_other_work": (1.1, 4.0),
    # a fixed time for each token, beside one that the memory needs
    "kernel_launch_bound": (1.05, 3.0),
    "eager_mode": (1.05, 4.0),
    "cpu_round_trip_bound": (1.05, 2.5),
    "sampling_on_cpu": (1.05, 3.0),
    "flash_attention_off": (1.05, 2.0),
    # layers on several GPUs: the slowest, or the link, for a part of each token
    "uneven_split": (1.05, 2.5),
    "fits_on_one_gpu": (1.05, 1.6),
    "multi_gpu_link_bound": (1.05, 4.0),
    "speculative_decoding_hurts": (1.05, 2.5),
    # what the CPU loses of its own speed
    "generic_cpu_build": (1.2, 5.0),
    "threads_too_few": (1.1, 4.0),
    "threads_on_efficiency_cores": (1.1, 2.5),
    "numa_remote_memory": (1.2, 4.0),
    "cpu_clock_limited": (1.1, 4.0),
}
"""How many times slower tokens come with a cause, at least and at most: see the pages of the causes for where that is
from. One that is not listed may cost anything."""


def suspects(report: SubjectReport) -> list[Untold]:
    """Causes of slow tokens that could cost as much as is lost: those that something speaks for, then common ones."""
    rate, best = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    if not rate or not best or rate >= best.low:
        return []
    lost = best.mid / rate
    able = [one for one in report.cannot_tell if _is_of_tokens(one) and _can_cost(one.cause, lost)]
    return sorted(able, key=lambda one: (not one.suspected, -frequency(one.cause)))[:MOST_NAMED]


def _is_of_tokens(one: Untold) -> bool:
    """Whether it is about decoding; what explains a loss only where nothing else does is no suspect by itself."""
    cause = all_causes().get(one.cause)
    return cause is not None and cause.phase == "decode" and (one.suspected or not cause.last_resort)


def _can_cost(name: str, lost: float) -> bool:
    least, most = _COSTS.get(name, (1.0, math.inf))
    return least <= lost * _ROUGHLY and lost <= most * _ROUGHLY


def suspects_in_words(report: SubjectReport) -> str:
    """The suspects in a sentence; empty where no loss is known, or nothing is left to suspect."""
    names = [all_causes()[one.cause].title for one in suspects(report)]
    said = "; ".join(
        f"{name[0].lower()}{name[1:]}" if not name.startswith(("GPU", "KV", "CPU")) else name for name in names
    )
    return f"What could cost so much, most likely first: {said}." if said else ""
