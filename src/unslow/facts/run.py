"""A measurement: what was asked, how long each part took, what the machine did meanwhile."""

from typing import Literal

import msgspec

from unslow.facts.machine import BusyProcess, Facts
from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Fact, Fraction

Phase = Literal["queue", "load", "prefill", "decode", "idle"]
"""Where a request was; "idle" is the time between requests."""


class Span(Facts, frozen=True, kw_only=True):
    """A time span by the system's clock, and what happened in it."""

    phase: Phase
    start_s: Amount
    end_s: Amount


class Stat(Facts, frozen=True, kw_only=True):
    """A quantity over the samples of a phase."""

    mean: float
    low: float
    high: float
    last: float
    samples: Count


class GpuTelemetry(Facts, frozen=True, kw_only=True):
    """One GPU in one phase; `figures` by name with the unit in it, such as `power_w`."""

    index: Count
    name: str = ""
    figures: dict[str, Stat] = msgspec.field(default_factory=dict)
    reasons: dict[str, Fraction] = msgspec.field(default_factory=dict)
    """The share of the samples in which the driver named a reason for its clocks."""


class PhaseTelemetry(Facts, frozen=True, kw_only=True):
    """All devices in one phase, over every request of it."""

    phase: Phase
    seconds: Amount
    samples: Count
    gpus: tuple[GpuTelemetry, ...] = ()
    host: dict[str, Stat] = msgspec.field(default_factory=dict)


class SamplerCost(Facts, frozen=True, kw_only=True):
    """What watching itself took."""

    seconds_per_sample: Amount
    slowest_sample_s: Amount
    cpus: Amount  # Processors that the watching thread used, on average


class TrackSeen(Facts, frozen=True, kw_only=True):
    """One column over time: `device` is the GPU's number, None for the host; None where there is no sample."""

    name: str  # With its unit, such as `clock_hz`, `power_w`, `vram_used_bytes`, `busy`
    device: Count | None = None
    values: tuple[float | None, ...]


class ReasonSeen(Facts, frozen=True, kw_only=True):
    """When a driver named a reason for its clocks."""

    device: Count
    reason: str
    start_s: Amount
    end_s: Amount


class Timeline(Facts, frozen=True, kw_only=True):
    """What was sampled over time, thinned to what a picture can show; seconds count from the first sample."""

    times_s: tuple[Amount, ...]
    tracks: tuple[TrackSeen, ...]
    spans: tuple[Span, ...] = ()
    reasons: tuple[ReasonSeen, ...] = ()


class Telemetry(Facts, frozen=True, kw_only=True):
    """Everything that was watched."""

    seconds: Amount
    samples: Count
    asked_hz: Amount
    got_hz: Amount
    late: Count = 0  # Samples that came more than a whole period late
    cost: SamplerCost
    phases: tuple[PhaseTelemetry, ...] = ()
    unread: dict[str, str] = msgspec.field(default_factory=dict)  # Sources that could not be read, and why
    timeline: Timeline | None = None  # The same over time, where it was kept


class Completion(Facts, frozen=True, kw_only=True):
    """One request: the server's own timings and the client's, kept apart."""

    prompt_tokens: Count
    cached_tokens: Count = 0
    generated_tokens: Count
    prefill_s: Amount
    decode_s: Amount
    client_first_token_s: Amount | None = None
    client_total_s: Amount | None = None
    timed_by_client: bool = False
    """Whether the server told no times, so that those above are the client's: they say nothing of what lies between."""
    waited_s: Amount | None = None
    held_back_s: Amount = 0.0  # Pauses of the stream after which what had been generated meanwhile came all at once
    drafted_tokens: Count = 0
    """What speculative decoding proposed, as the server counts it; 0 where it drafts nothing or does not report it."""
    accepted_tokens: Count = 0
    pieces_at_once: Amount = 0.0
    """How many pieces of the stream came together on average, as the tokens of one step do; 0 where few came."""


class GpuUnderLoad(Facts, frozen=True, kw_only=True):
    """A GPU while tokens were generated: means, except where the name says otherwise."""

    index: Count
    samples: Count
    busy: Fact[Fraction] = NOT_LOOKED
    memory_busy: Fact[Fraction] = NOT_LOOKED
    clock_hz: Fact[Amount] = NOT_LOOKED
    temperature_max_c: Fact[Amount] = NOT_LOOKED
    power_max_w: Fact[Amount] = NOT_LOOKED
    vram_used_max_bytes: Fact[Bytes] = NOT_LOOKED
    event_reasons: Fact[list[str]] = NOT_LOOKED
    pcie_generation_max_seen: Fact[Count] = NOT_LOOKED
    pcie_width_max_seen: Fact[Count] = NOT_LOOKED
    others_busy: Fact[Fraction] = NOT_LOOKED
    """The share of the time that kernels of other processes ran, by the driver's count."""


class Earlier(Facts, frozen=True, kw_only=True):
    """The same model on the same machine as it was measured before, held against the measurement of now."""

    bench: str  # The id of the benchmark in the history
    taken_at: str
    decode_tokens_per_s: Amount
    now_tokens_per_s: Amount
    slower: bool  # Whether it is slower now by more than noise
    version: str = ""  # The runtime's, then
    version_now: str = ""
    also_changed: tuple[str, ...] = ()  # What else is not as it was and may explain it, in plain words


class LongPrompt(Facts, frozen=True, kw_only=True):
    """A prompt that fills several micro-batches, and how long the server took to read it."""

    tokens: Count  # Those that were computed
    seconds: Amount
    first_token_s: Amount | None = None  # By the client's clock


class AtDepth(Facts, frozen=True, kw_only=True):
    """The speed of an answer that starts this many tokens into the context."""

    depth_tokens: Count
    tokens_per_s: Amount


class AtOnce(Facts, frozen=True, kw_only=True):
    """So many requests at the same time."""

    requests: Count
    tokens_per_s: Amount  # Of all of them together, while all were generating
    first_token_s: Amount  # Of the one that waited longest


class TrialInTurns(Facts, frozen=True, kw_only=True):
    """The same request as the server is set up, and with one thing changed, in turns."""

    changed: str  # What was changed, in plain words
    as_set_tokens_per_s: Amount
    changed_tokens_per_s: Amount


class Turn(Facts, frozen=True, kw_only=True):
    """One turn of a conversation: how long it had become, what of it was new, and what was computed again."""

    prompt_tokens: Count
    new_tokens: Count
    computed_tokens: Count
    first_token_s: Amount | None = None


class Route(Facts, frozen=True, kw_only=True):
    """A way to the server, and how long it takes until it answers the shortest question."""

    host: str
    seconds: Amount | None = None  # None where it never answered


class SeenPrompt(Facts, frozen=True, kw_only=True):
    """The prompt of another client's request, as the server shows it."""

    slot: Count
    tokens: Count
    cached_tokens: Count  # Those that it still had from the request before


class Traffic(Facts, frozen=True, kw_only=True):
    """What a server did for others while it was only watched."""

    seconds: Amount
    looks: Count
    running: Amount  # Requests that were being answered, on average
    waiting: Amount  # Requests that waited for a place, on average
    counts_waiting: bool = True
    """Whether the server reports how many wait; where it does not, `waiting` is 0 and says nothing."""
    tokens_per_s: Fact[Amount] = NOT_LOOKED  # Of all requests together
    prompt_tokens_per_s: Fact[Amount] = NOT_LOOKED  # Of all prompts together, those tokens that were computed
    preemptions: Fact[Count] = NOT_LOOKED
    cache_used: Fact[Fraction] = NOT_LOOKED  # The largest share of the KV cache that was in use
    loads: Fact[Count] = NOT_LOOKED  # How often a model was loaded meanwhile
    top_k: Fact[int] = NOT_LOOKED
    grammar: Fact[str] = NOT_LOOKED
    logprobs: Fact[Count] = NOT_LOOKED  # As the requests in work ask for it
    prompts: Fact[tuple[SeenPrompt, ...]] = NOT_LOOKED  # Of the requests that were seen, in their order
    each_tokens_per_s: Fact[Amount] = NOT_LOOKED
    """Of one request, while the same requests went on from one look to the next."""
    each_among: Amount = 0.0  # How many they were then, on average
    each_prompt_tokens_per_s: Fact[Amount] = NOT_LOOKED  # Of the prompts that were computed then


class Run(Facts, frozen=True, kw_only=True):
    """The standard measurement on one runtime and model."""

    completions: Fact[tuple[Completion, ...]] = NOT_LOOKED
    decode_tokens_per_s: Fact[Amount] = NOT_LOOKED
    prefill_tokens_per_s: Fact[Amount] = NOT_LOOKED
    time_to_first_token_s: Fact[Amount] = NOT_LOOKED
    client_decode_tokens_per_s: Fact[Amount] = NOT_LOOKED
    load_s: Fact[Amount] = NOT_LOOKED
    depth_tokens: Fact[Count] = NOT_LOOKED
    own_cpus: Fact[Amount] = NOT_LOOKED
    others_cpus: Fact[Amount] = NOT_LOOKED
    busiest_others: Fact[list[BusyProcess]] = NOT_LOOKED
    waiting_for_cpu_s_per_token: Fact[Amount] = NOT_LOOKED
    cpu_throttled_fraction: Fact[Fraction] = NOT_LOOKED
    thinking_tokens: Fact[Count] = NOT_LOOKED
    answer_tokens: Fact[Count] = NOT_LOOKED
    queue_s: Fact[Amount] = NOT_LOOKED  # How long a request waits before it is read
    request_s: Fact[tuple[Amount, ...]] = NOT_LOOKED
    """How long whole requests took by the server's access log, the last of them last."""
    logged_prompts: Fact[tuple[Count, ...]] = NOT_LOOKED
    """Tokens of prompts that were computed for the last requests by the server's log, the last of them last."""
    decode_decay: Fact[Fraction] = NOT_LOOKED
    """The speed of the last seconds of a long answer over its mean: well below one where it slows down."""
    gpus: Fact[tuple[GpuUnderLoad, ...]] = NOT_LOOKED
    telemetry: Fact[Telemetry] = NOT_LOOKED  # What all devices did meanwhile, by the phase of the requests
    earlier: Fact[Earlier] = NOT_LOOKED  # The last benchmark of the same thing, where one is kept
    long_prompt: Fact[LongPrompt] = NOT_LOOKED
    depths: Fact[tuple[AtDepth, ...]] = NOT_LOOKED  # The shallowest first
    at_once: Fact[tuple[AtOnce, ...]] = NOT_LOOKED  # One request alone first
    plain_sampling: Fact[TrialInTurns] = NOT_LOOKED  # The likeliest token taken, without any sampler
    turns: Fact[tuple[Turn, ...]] = NOT_LOOKED
    routes: Fact[tuple[Route, ...]] = NOT_LOOKED
    traffic: Fact[Traffic] = NOT_LOOKED
