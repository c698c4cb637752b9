"""Every measurement that a diagnosis can make, with what it would tell and what it asks of the server."""

from functools import cache

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown, first_known
from unslow.think.measuring.measurement import Load, Measurement

SPEED, TRAFFIC, HOST = "speed", "traffic", "host"
LONG_PROMPT_TOKENS = 2048
"""Four of llama.cpp's usual micro-batches of 512."""
DEEPEST_TOKENS = 8192
_ROOM = 512
"""Of a context, for the template and the answer."""
_LOOPBACK = ("//localhost", "//127.", "//[::1]")
_BATCHING = ("vLLM", "SGLang", "TGI")

WHILE_GENERATING = (
    "run.gpus",
    "run.telemetry",
    "run.own_cpus",
    "run.others_cpus",
    "run.busiest_others",
    "run.waiting_for_cpu_s_per_token",
    "run.cpu_throttled_fraction",
)


def context_of(case: Case) -> int | None:
    """The tokens that a prompt and its answer may have together, where that is known."""
    return first_known(case.runtime.context_per_slot, case.runtime.context_length).value_or(None)


def _fits(case: Case, tokens: int) -> bool:
    context = context_of(case)
    return context is None or context >= tokens + _ROOM


def _long_prompt(case: Case) -> Load:
    context = context_of(case) or LONG_PROMPT_TOKENS + _ROOM
    return Load(prompt_tokens=2 * min(LONG_PROMPT_TOKENS, max(64, context - _ROOM)), generated_tokens=2, seconds=0.2)


def _is_busy(case: Case) -> bool:
    """Whether it works for others, now or between two looks by its log, and can be asked about it."""
    runtime = case.runtime
    busy = first_known(runtime.busy_slots, runtime.running_requests).value_or(0)
    return bool(busy or case.run.logged_prompts.value_or(())) and isinstance(runtime.url, Known)


def _serves_several(case: Case) -> bool:
    runtime = case.runtime
    places = first_known(runtime.slots, runtime.max_sequences).value_or(0)
    return (places > 1 or runtime.name.value_or("") in _BATCHING) and not _is_left_in_pieces(case)


def _is_left_in_pieces(case: Case) -> bool:
    """Whether several answers at once would cost the next request dearly.

    In a cache that all slots share, the tokens of answers at the same time lie in turns. llama-server copies idle slots
    to RAM before it starts the next request, and without flash attention, where values lie by rows of the context, it
    does so number by number: half a minute from a GPU.
    """
    runtime = case.runtime
    if not runtime.name.value_or("").endswith("llama.cpp"):
        return False
    fused, shared = runtime.flash_attention.value_or(default=True), runtime.kv_unified.value_or(default=True)
    return not fused and shared and runtime.cache_ram_bytes.value_or(1) != 0


def _is_here(case: Case) -> bool:
    """Whether the server is on this machine."""
    return any(place in case.runtime.url.value_or("") for place in _LOOPBACK)


@cache
def measurements() -> dict[str, Measurement]:
    """All of them by name, the usual speed first."""
    return {m.name: m for m in (*_sending(), *_watching())}


def _sending() -> tuple[Measurement, ...]:
    return (
        Measurement(
            SPEED,
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
            "long_prompt",
            f"reading a prompt of {LONG_PROMPT_TOKENS:,} tokens",
            "to see whether prompts are read as fast as they could be",
            ("run.long_prompt",),
            _long_prompt,
            possible=lambda case: _fits(case, 512),
            about=("prefill_batch_too_small", "prefill_pcie_bound"),
        ),
        Measurement(
            "turns",
            "holding a conversation of three turns",
            "to see whether all of it is read again at every turn",
            ("run.turns",),
            lambda _case: Load(prompt_tokens=1400, generated_tokens=112, seconds=0.2),
            possible=lambda case: _fits(case, 1024),
            about=("prompt_reprocessed",),
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
            "depth",
            "generating at the start of the context and further in",
            "to see what a longer conversation costs",
            ("run.depths",),
            lambda case: Load(
                prompt_tokens=min(DEEPEST_TOKENS, context_of(case) or DEEPEST_TOKENS), generated_tokens=512, seconds=0.2
            ),
            possible=lambda case: _fits(case, 1536),
            about=("kv_cache_outgrows_vram", "flash_attention_off", "kv_cache_on_host"),
        ),
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
            "routes",
            "connecting by name and by address",
            "to see whether the way to the server costs time",
            ("run.routes",),
            lambda _case: Load(seconds=0.5),
            possible=_is_here,
            about=("client_overhead",),
        ),
    )


def _watching() -> tuple[Measurement, ...]:
    return (
        Measurement(
            TRAFFIC,
            "watching the requests that it answers anyway",
            "to see how fast it is, and who waits",
            ("run.traffic", "run.decode_tokens_per_s", "run.queue_s"),
            lambda _case: Load(seconds=6.0),
            sends=False,
            possible=_is_busy,
            about=("queueing", "kv_cache_preemption", "gpu_underused_by_one_stream", "model_reloads_between_requests"),
        ),
        Measurement(
            HOST,
            "watching the machine while it works",
            "to see what else the machine does",
            WHILE_GENERATING,
            lambda _case: Load(seconds=3.0),
            sends=False,
            possible=lambda case: _is_here(case) and isinstance(case.run.completions, Unknown),
        ),
    )
