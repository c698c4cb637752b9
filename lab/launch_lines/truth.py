"""What a server's own log says that was decided, and whether what is known of it is the same."""

import re
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import MIB, Known

_TRUTH: dict[str, tuple[str, Any]] = {
    "context_length": (r"llama_context: n_ctx\s+= (\d+)", int),
    "batch": (r"llama_context: n_batch\s+= (\d+)", int),
    "ubatch": (r"llama_context: n_ubatch\s+= (\d+)", int),
    "kv_type_k": (r"K \((\w+)\)", str),
    "kv_type_v": (r"V \((\w+)\)", str),
    "threads": (r"n_threads = (\d+) \(", int),
    "threads_batch": (r"n_threads_batch = (\d+)\)", int),
    "slots": (r"n_slots = (\d+)", int),
    "context_per_slot": (r"n_ctx_slot = (\d+)", int),
    "kv_unified": (r"n_slots = .*kv_unified = '(\w+)'", lambda word: word == "true"),
    "load_mode": (r"load_mode = ([\w+]+)\)", str),
    "cache_ram_bytes": (r"prompt cache is enabled, size limit: (\d+) MiB", lambda n: int(n) * MIB),
}
_HARMLESS = {"load_mode": [["auto", "mmap"]]}
"""What a default leaves open, and what comes of it here."""


def truth_of(log: str) -> dict[str, Any]:
    """What a log of `-lv 4` says that was decided; the first of several contexts is the model's own."""
    found = {name: (re.search(pattern, log), read) for name, (pattern, read) in _TRUTH.items()}
    truth = {name: read(match[1]) for name, (match, read) in found.items() if match}
    asked = re.search(r"llama_context: flash_attn\s+= (\w+)", log)
    resolved = re.search(r"Flash Attention (enabled|not supported)", log)
    if asked:
        truth["flash_attention"] = (
            (resolved and resolved[1] == "enabled") if asked[1] == "auto" else asked[1] == "enabled"
        )
    if "prompt cache is disabled" in log:
        truth["cache_ram_bytes"] = 0
    return truth


def compared(runtime: Runtime, truth: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each fact: its name, what is known of it, from what, and whether it is true."""
    rows = []
    for name in sorted(truth):
        fact = runtime.fact(name)
        known = fact.value if isinstance(fact, Known) else None
        harmless = [known, truth[name]] in _HARMLESS.get(name, [])
        verdict = (
            "unknown" if known is None else "true" if known == truth[name] or harmless else f"WRONG: {truth[name]}"
        )
        rows.append((name, str(known), fact.source if isinstance(fact, Known) else fact.why, verdict))
    return rows
