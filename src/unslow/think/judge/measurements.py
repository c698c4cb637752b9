"""Everything that a diagnosis can measure: what it tells, what it asks of the server, where it is possible."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.facts.runtime import IN_BATCHES
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown, first_known

SPEED, TRAFFIC, HOST = "speed", "traffic", "host"  # Those that all else is judged by
ROOM = 512  # Tokens of a context, for the template and the answer
DEEPEST_TOKENS, LONG_PROMPT_TOKENS = 8192, 2048  # The second is four of llama.cpp's usual micro-batches of 512
WHILE_GENERATING = (
    "run.gpus",
    "run.telemetry",
    "run.own_cpus",
    "run.others_cpus",
    "run.busiest_others",
    "run.waiting_for_cpu_s_per_token",
    "run.cpu_throttled_fraction",
)
"""What is seen of the machine while the server works."""
_LOOPBACK = ("//localhost", "//127.", "//[::1]")


class Load(NamedTuple):
    """What a measurement asks of a server, one after the other."""

    prompt_tokens: float = 0.0
    generated_tokens: float = 0.0
    seconds: float = 0.0  # Beyond what the server computes: waiting, watching, connecting


class Measurement(NamedTuple):
    """One thing that can be measured; `name` is also that of the trial in `unslow.look.bench.trials`."""

    name: str
    doing: str  # What is being done, as a progress line says it: "reading a prompt of 2,048 tokens"
    why: str  # What for, as it goes on: "to see whether prompts are read as fast as they could be"
    fills: tuple[str, ...]  # The facts that it would fill, by path
    load: Callable[[Case], Load]
    sends: bool = True  # Whether it gives the server work to do; what only watches may be done with a busy one
    possible: Callable[[Case], bool] = lambda _case: True
    """Whether it can be done here at all: the context is large enough, there are several slots, ..."""
    about: tuple[str, ...] = ()  # Causes that can be told without it, and be told better with it


def context_of(case: Case) -> int | None:
    """The tokens that a prompt and its answer may have together, where that is known."""
    return first_known(case.runtime.context_per_slot, case.runtime.context_length).value_or(None)


def prompt_fits(case: Case, tokens: int) -> bool:
    """Whether a prompt of so many leaves room for the rest; where nobody knows, it may."""
    context = context_of(case)
    return context is None or context >= tokens + ROOM


def is_here(case: Case) -> bool:
    """Whether the server is on this machine."""
    return any(place in case.runtime.url.value_or("") for place in _LOOPBACK)


def _serves_several(case: Case) -> bool:
    runtime, name = case.runtime, case.runtime.name.value_or("")
    several = first_known(runtime.slots, runtime.max_sequences).value_or(0) > 1 or name in IN_BATCHES
    # In a cache that all slots share, the tokens of answers at the same time lie in turns. llama-server copies idle
    # slots to RAM before it starts the next request, and without flash attention, where values lie by rows of the
    # context, it does so number by number: half a minute from a GPU.
    fused, shared = runtime.flash_attention.value_or(default=True), runtime.kv_unified.value_or(default=True)
    in_pieces = not fused and shared and runtime.cache_ram_bytes.value_or(1) != 0
    return several and not (name.endswith("llama.cpp") and in_pieces)


def _is_busy(case: Case) -> bool:
    """Whether it works for others, now or between two looks by its log, and can be asked about it."""
    runtime = case.runtime
    busy = first_known(runtime.busy_slots, runtime.running_requests).value_or(0)
    return bool(busy or case.run.logged_prompts.value_or(())) and isinstance(runtime.url, Known)


def _depth_load(case: Case) -> Load:
    deepest = min(DEEPEST_TOKENS, context_of(case) or DEEPEST_TOKENS)
    return Load(prompt_tokens=deepest, generated_tokens=512, seconds=0.2)


def _long_prompt_load(case: Case) -> Load:
    context = context_of(case) or LONG_PROMPT_TOKENS + ROOM
    return Load(prompt_tokens=2 * min(LONG_PROMPT_TOKENS, max(64, context - ROOM)), generated_tokens=2, seconds=0.2)


_EVERY = (
    Measurement(
        "at_once",
        "answering several requests at once",
        "to see what several users would get",
        ("run.at_once",),
        lambda _case: Load(prompt_tokens=200, generated_tokens=640, seconds=0.2),
        possible=_serves_several,
        about=("gpu_underused_by_one_stream", "queueing", "kernel_launch_bound"),
    ),
    Measurement(
        "depth",
        "generating at the start of the context and further in",
        "to see what a longer conversation costs",
        ("run.depths",),
        _depth_load,
        possible=lambda case: prompt_fits(case, 1536),
        about=("kv_cache_outgrows_vram", "flash_attention_off", "kv_cache_on_host"),
    ),
    Measurement(
        "host",
        "watching the machine while it works",
        "to see what else the machine does",
        WHILE_GENERATING,
        lambda _case: Load(seconds=3.0),
        sends=False,
        possible=lambda case: is_here(case) and isinstance(case.run.completions, Unknown),
    ),
    Measurement(
        "long_prompt",
        f"reading a prompt of {LONG_PROMPT_TOKENS:,} tokens",
        "to see whether prompts are read as fast as they could be",
        ("run.long_prompt",),
        _long_prompt_load,
        possible=lambda case: prompt_fits(case, 512),
        about=("prefill_batch_too_small", "prefill_pcie_bound"),
    ),
    Measurement(
        "plain_sampling",
        "generating with and without its samplers, in turns",
        "to see what the choice of each token costs",
        ("run.plain_sampling",),
        lambda _case: Load(prompt_tokens=160, generated_tokens=1024, seconds=0.2),
        about=("sampling_on_cpu",),
    ),
    Measurement(
        "routes",
        "connecting by name and by address",
        "to see whether the way to the server costs time",
        ("run.routes",),
        lambda _case: Load(seconds=0.5),
        possible=is_here,
        about=("client_overhead",),
    ),
    Measurement(
        "speed",
        "generating answers as usual",
        "to know what this server gives",
        (
            "run.completions",
            "run.decode_tokens_per_s",
            "run.prefill_tokens_per_s",
            "run.time_to_first_token_s",
            "run.client_decode_tokens_per_s",
            "run.depth_tokens",
            "run.queue_s",
            *WHILE_GENERATING,
        ),
        lambda _case: Load(prompt_tokens=160, generated_tokens=16, seconds=9.0),
    ),
    Measurement(
        "traffic",
        "watching the requests that it answers anyway",
        "to see how fast it is, and who waits",
        ("run.traffic", "run.decode_tokens_per_s", "run.queue_s"),
        lambda _case: Load(seconds=6.0),
        sends=False,
        possible=_is_busy,
        about=("queueing", "kv_cache_preemption", "gpu_underused_by_one_stream", "model_reloads_between_requests"),
    ),
    Measurement(
        "turns",
        "holding a conversation of three turns",
        "to see whether all of it is read again at every turn",
        ("run.turns",),
        lambda _case: Load(prompt_tokens=1400, generated_tokens=112, seconds=0.2),
        possible=lambda case: prompt_fits(case, 1024),
        about=("prompt_reprocessed",),
    ),
)
MEASUREMENTS = {one.name: one for one in _EVERY}
"""All of them by name, in alphabetical order."""
