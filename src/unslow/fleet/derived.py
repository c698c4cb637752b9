"""What is read for a member, of what was counted: means by sums and counts, shares, and nothing of too little."""

from collections.abc import Mapping

from unslow.fleet.member import Reading

Raw = Mapping[str, tuple[int, float, str]]
_MEANS = ("token_gap_s", "first_token_s", "queue_s", "request_s", "prompt_tokens", "answer_tokens")
_SHARES = {"prefix_hit_rate": ("prefix_hits", "prefix_queries"), "draft_acceptance": ("drafts_accepted", "drafts_made")}
_BUSY = {"decode_tokens_per_busy_s": ("decode_tokens", "decode_busy_s")}
_AS_READ = (
    "up", "samples", "running", "running_max", "running_spread", "waiting", "generated_tokens_per_s",
    "prompt_tokens_per_s", "preemptions", "cache_used", "places", "context_tokens",
    "kv_tokens", "asleep", "started_ago_s", "draft_acceptance", "running_before",
)  # fmt: skip
COUNTED = (*_MEANS, *_SHARES, *_BUSY, "generated_tokens_per_s", "prompt_tokens_per_s", "preemptions",
           "tokens_counted")  # fmt: skip
"""What comes from counters: all of it is wrong where two targets write the same series."""
_LEAST = 1.0
"""Of events in the window: an increase of less is a rest of extrapolation."""
_ENOUGH = 50.0
"""Of tokens: fewer say more of first tokens than of speed."""
_BEFORE = {"token_gap_before_s": "token_gap_s", "decode_tokens_per_busy_s_before": "decode_tokens_per_busy_s"}


def engine_readings(raw: Raw, window_s: float) -> dict[str, Reading]:
    """The readings of `quantities.ENGINE` that can be told."""
    found = {name: Reading(raw[name][1], raw[name][2]) for name in _AS_READ if name in raw}
    for name in _MEANS:
        _put(found, name, _quotient(raw, f"{name}_sum", f"{name}_count"))
    for name, (top, bottom) in (_SHARES | _BUSY).items():
        _put(found, name, _quotient(raw, top, bottom, _LEAST if name in _SHARES else 0.0))
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
    free, reserved = found.pop("vram_free_mean_bytes", None), found.pop("vram_reserved_bytes", None)
    braked = found.pop("power_braked", None)
    if free and "vram_used_bytes" in found and "vram_total_bytes" not in found:
        used = found["vram_used_bytes"]
        whole = used.value + free.value + (reserved.value if reserved else 0.0)
        found["vram_total_bytes"] = Reading(whole, f"{used.source.partition(',')[0]} and {free.source}")
    if braked and "power_throttled" in found:
        capped = found["power_throttled"]
        found["power_throttled"] = Reading(min(1.0, capped.value + braked.value), capped.source)
    return found


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


def _quotient(raw: Raw, top: str, bottom: str, least: float = _LEAST) -> Reading | None:
    """A mean, where there was something to take it of."""
    if top not in raw or bottom not in raw or raw[bottom][1] < least or raw[bottom][1] <= 0:
        return None
    if top.endswith("_tokens") and raw[top][1] < _ENOUGH:
        return None
    names = raw[bottom][2] if top.endswith("_sum") else f"{raw[top][2].partition(',')[0]} by {raw[bottom][2]}"
    source = names.replace("_count,", ",").replace("counted over", "mean of") if top.endswith("_sum") else names
    return Reading(raw[top][1] / raw[bottom][1], source)
