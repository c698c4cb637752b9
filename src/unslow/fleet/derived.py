"""What is read for a member, of what was counted: means by sums and counts, shares, and nothing of too little."""

from collections.abc import Mapping

from unslow.fleet.member import Reading

Raw = Mapping[str, tuple[int, float, str]]
_MEANS = ("token_gap_s", "first_token_s", "queue_s", "request_s", "prompt_tokens", "answer_tokens")
_SHARES = {"prefix_hit_rate": ("prefix_hits", "prefix_queries"), "draft_acceptance": ("drafts_accepted", "drafts_made")}
RATIOS = {name: (f"{name}_sum", f"{name}_count") for name in _MEANS} | _SHARES
"""What Prometheus divides itself: one series in its answer instead of two."""
_BUSY = {"decode_tokens_per_busy_s": ("decode_tokens", "decode_busy_s")}
_AS_READ = (
    "up", "samples", "running", "running_spread", "waiting", "generated_tokens_per_s",
    "prompt_tokens_per_s", "preemptions", "cache_used", "places", "context_tokens",
    "kv_tokens", "asleep", "draft_acceptance", "running_before",
)  # fmt: skip
COUNTED = (*_MEANS, *_SHARES, *_BUSY, "generated_tokens_per_s", "prompt_tokens_per_s", "preemptions",
           "tokens_counted")  # fmt: skip
"""What comes from counters: all of it is wrong where two targets write the same series."""
_HELD = ("thermal_throttled", "power_throttled")
LEAST = 1.0
"""Of events in the window: an increase of less is a rest of extrapolation."""
_ENOUGH = 50.0
"""Of tokens: fewer say more of first tokens than of speed."""
_BEFORE = {"token_gap_before_s": "token_gap_s", "decode_tokens_per_busy_s_before": "decode_tokens_per_busy_s"}


def engine_readings(raw: Raw, window_s: float) -> dict[str, Reading]:
    """The readings of `quantities.ENGINE` that can be told."""
    found = {name: Reading(raw[name][1], raw[name][2]) for name in _AS_READ if name in raw}
    for name, (top, bottom) in RATIOS.items():
        _put(found, name, Reading(raw[name][1], raw[name][2]) if name in raw else _quotient(raw, top, bottom))
    for name, (top, bottom) in _BUSY.items():
        _put(found, name, _quotient(raw, top, bottom, 0.0))
    for name, now in _BEFORE.items():
        top, bottom = (f"{now}_sum", f"{now}_count") if now in _MEANS else _BUSY[now]
        _put(found, name, _quotient(raw, f"before.{top}", f"before.{bottom}", 0.0 if now in _BUSY else _ENOUGH))
    if "generated_tokens_per_s" in found:
        rate = found["generated_tokens_per_s"]
        found["tokens_counted"] = Reading(rate.value * window_s, rate.source)
    for name in ("prefix_hit_rate", "cache_used", "draft_acceptance"):
        if name in found and not 0 <= found[name].value <= 1 + 1e-6:
            del found[name]  # more hits than questions: two things that don't belong together
    return found


def gpu_readings(raw: Raw) -> dict[str, Reading]:
    """The readings of `quantities.GPU` that can be told."""
    found = {name: Reading(value, source) for name, (_, value, source) in raw.items()}
    free, reserved = found.get("vram_free_bytes"), found.pop("vram_reserved_bytes", None)
    if free and "vram_used_max_bytes" in found and "vram_total_bytes" not in found:
        used = found["vram_used_max_bytes"]
        whole = used.value + free.value + (reserved.value if reserved else 0.0)
        found["vram_total_bytes"] = Reading(whole, f"{used.source.partition(',')[0]} and {free.source}")
    return found | _held(found, raw)


def _held(found: dict[str, Reading], raw: Raw) -> dict[str, Reading]:
    """What holds its clocks down: of a GPU that tells its reasons, one that is not among the answers never was."""
    told, braked = found.pop("reasons_told", None), found.pop("power_braked", None)
    shares = {name: min(1.0, found[name].value) for name in _HELD if name in found}
    if told:
        shares = {name: shares.get(name, 0.0) if _tells(raw, name) else 0.0 for name in _HELD}
    if braked and "power_throttled" in shares:
        shares["power_throttled"] = min(1.0, shares["power_throttled"] + braked.value)
    by = told.source.replace("the last of", "part of") if told else ""
    return {name: Reading(share, by or found[name].source) for name, share in shares.items()}


def _tells(raw: Raw, name: str) -> bool:
    """Whether a reason comes from the metric that is there, and not from one that counts less."""
    return name in raw and raw[name][0] <= raw["reasons_told"][0]


def host_readings(raw: Raw) -> dict[str, Reading]:
    """The readings of `quantities.HOST` that can be told."""
    found = {name: Reading(value, source) for name, (_, value, source) in raw.items()}
    idle, free = found.pop("idle_cpus", None), found.pop("swap_free_bytes", None)
    if idle and "cpus" in found:
        found["busy_cpus"] = Reading(max(0.0, found["cpus"].value - idle.value), idle.source)
    if free and "swap_total_bytes" in found:
        found["swap_used_bytes"] = Reading(max(0.0, found["swap_total_bytes"].value - free.value), free.source)
    return found


def _put(found: dict[str, Reading], name: str, reading: Reading | None) -> None:
    if reading:
        found[name] = reading


def _quotient(raw: Raw, top: str, bottom: str, least: float = LEAST) -> Reading | None:
    """A mean, where there was something to take it of."""
    if top not in raw or bottom not in raw or raw[bottom][1] < least or raw[bottom][1] <= 0:
        return None
    if top.endswith("_tokens") and raw[top][1] < _ENOUGH:
        return None
    return Reading(raw[top][1] / raw[bottom][1], source_of_ratio(top, raw[top][2], raw[bottom][2]))


def source_of_ratio(top: str, above: str, below: str) -> str:
    """Where a mean or a share comes from, by the sources of what was divided."""
    if top.endswith("_sum"):
        return below.replace("_count,", ",").replace("counted over", "mean of")
    return f"{above.partition(',')[0]} by {below}"
