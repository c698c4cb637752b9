"""One engine of a fleet, with everything of it, of its GPUs and of its host that a Prometheus could tell."""

from typing import NamedTuple

import msgspec


class Reading(NamedTuple):
    """A quantity over the window, in SI units or shares of one, and where it comes from."""

    value: float
    source: str
    """The metric and how it was taken, such as `vllm:num_requests_running, mean of 15 min`."""


class MemberGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that belongs to the engine; `readings` by the names of `quantities.GPU`."""

    index: int
    name: str = ""
    identity: str = ""
    """Its UUID or bus address, masked nowhere: it goes into no report."""
    driver: str = ""
    vendor: str = ""
    readings: dict[str, Reading] = msgspec.field(default_factory=dict)


class OwnDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What `unslow exporter` on its machine says of this engine: it sees logs and processes, and no Prometheus does."""

    verdict: str
    findings: dict[str, float] = msgspec.field(default_factory=dict)
    """The share of the window in which a cause was there, by its name."""
    costs_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Seconds that a cause takes of every token, by its name, where the exporter can tell."""
    speed_tokens_per_s: float | None = None
    expected_tokens_per_s: tuple[float, float, float] | None = None
    """Low, middle and high, as it is set up."""
    achievable_tokens_per_s: float | None = None
    age_s: float | None = None
    """How long ago it looked."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One engine; `engine`, `host` and the GPUs' readings by the names of `quantities`."""

    key: str
    """Unique in the fleet and short, such as `namespace/pod` or `host:port`."""
    runtime: str
    """As the causes call it: vLLM, llama.cpp, SGLang, TGI, Ollama."""
    model: str = ""
    version: str = ""
    version_before: str = ""
    """At the time that it is compared with, where that was told."""
    host_name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Those of its series that tell where it is; bounded."""
    window_s: float
    engine: dict[str, Reading] = msgspec.field(default_factory=dict)
    info: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of information metrics, such as those of `vllm:cache_config_info`."""
    gpus: tuple[MemberGpu, ...] = ()
    host: dict[str, Reading] = msgspec.field(default_factory=dict)
    own: OwnDiagnosis | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """Why nothing is known of `engine`, `gpus` or `host`: no exporter, labels that don't join, a query that failed."""
    down: str = ""
    """Why it is not there now, where Prometheus tried to scrape it and could not; what was read is of before."""
    doubts: tuple[str, ...] = ()
    """What a reader must know: restarted within the window, twice the same labels, scraped only half of the time."""
