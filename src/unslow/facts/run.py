"""A measurement: what was asked, how long each part took, what the machine did meanwhile."""

from unslow.facts.machine import BusyProcess, Facts
from unslow.facts.telemetry import Telemetry
from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Fact, Fraction


class Completion(Facts, frozen=True, kw_only=True):
    """One request: the server's own timings and the client's, kept apart."""

    prompt_tokens: Count
    cached_tokens: Count = 0
    generated_tokens: Count
    prefill_s: Amount
    decode_s: Amount
    client_first_token_s: Amount | None = None
    client_total_s: Amount | None = None
    waited_s: Amount | None = None


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


class Earlier(Facts, frozen=True, kw_only=True):
    """The same model on the same machine as it was measured before, held against the measurement of now."""

    bench: str
    """The id of the benchmark in the history."""
    taken_at: str
    decode_tokens_per_s: Amount
    now_tokens_per_s: Amount
    slower: bool
    """Whether it is slower now by more than noise."""
    version: str = ""
    """The runtime's, then."""
    version_now: str = ""
    also_changed: tuple[str, ...] = ()
    """What else is not as it was and may explain it, in plain words."""


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
    queue_s: Fact[Amount] = NOT_LOOKED
    """How long a request waits before it is read."""
    request_s: Fact[tuple[Amount, ...]] = NOT_LOOKED
    """How long whole requests took by the server's access log, the last of them last."""
    decode_decay: Fact[Fraction] = NOT_LOOKED
    """The speed of the last seconds of a long answer over its mean: well below one where it slows down."""
    gpus: Fact[tuple[GpuUnderLoad, ...]] = NOT_LOOKED
    telemetry: Fact[Telemetry] = NOT_LOOKED
    """What all devices did meanwhile, by the phase of the requests."""
    earlier: Fact[Earlier] = NOT_LOOKED
    """The last benchmark of the same thing, where one is kept."""
