"""A benchmark: every request with its times, what they come to, under which conditions, and what the machine did.

Decoding means the same on every runtime: the tokens after the first, over the time since the first. Reading a prompt
means the tokens that were computed, not those that a cache already had.
"""

from typing import Literal, NamedTuple

import msgspec

from unslow.facts.calibration import MachineMark
from unslow.facts.machine import Facts
from unslow.facts.run import Telemetry
from unslow.facts.stored_json import parse_stored
from unslow.facts.values import Amount, Count, Fraction

SCHEMA = "unslow.bench/1"
LARGEST_BENCH_BYTES = 32 * 1024**2
DECODE, PREFILL, FIRST = "decode_tokens_per_s", "prefill_tokens_per_s", "time_to_first_token_s"
CLIENT_DECODE = "client_decode_tokens_per_s"
DECODE_AT_4K = "decode_at_4k_tokens_per_s"
TOGETHER = "together_tokens_per_s"
LOAD = "load_s"
GAPS = ("gap_p50_s", "gap_p95_s", "gap_p99_s")  # Times between two tokens as the client sees them
LOWER_IS_BETTER = frozenset({FIRST, LOAD, *GAPS})
FailureKind = Literal["refused", "not_answered", "stalled", "broke_off", "error", "gone"]
Change = Literal["faster", "slower", "same", "cannot_tell"]
State = Literal["whole", "interrupted", "running", "broke_off"]
"""Broke off: its program ended without a word; what had come by then is kept."""
ROW_IDENTITY = ("build_commit", "build_number", "cpu_info", "gpu_info", "model_filename", "model_size")
"""What a benchmark has fields of its own for."""
ROW_RESULTS = (
    "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
    "samples_ts",
)  # fmt: skip
"""What belongs to one test; all else is how it was set up."""
ROW_SETTINGS = {
    "backends": "runtime.backends",
    "model_n_params": "model.parameters",
    "n_batch": "runtime.batch",
    "n_ubatch": "runtime.ubatch",
    "n_threads": "runtime.threads",
    "cpu_mask": "runtime.cpu_list",
    "poll": "runtime.polling",
    "type_k": "runtime.kv_type_k",
    "type_v": "runtime.kv_type_v",
    "n_gpu_layers": "runtime.gpu_layers_set",
    "split_mode": "runtime.split_mode",
    "main_gpu": "runtime.main_gpu",
    "flash_attn": "runtime.flash_attention",
    "devices": "runtime.device_set",
    "tensor_split": "runtime.tensor_split",
    "tensor_buft_overrides": "runtime.tensor_overrides",
    "load_mode": "runtime.load_mode",
    "repack": "runtime.repack",
}
"""The fact that each of its settings is; others are kept under `llama_bench.` and their own name."""


class Gaps(Facts, frozen=True, kw_only=True):
    """The times between the tokens of one answer, by the client's clock."""

    count: Count
    p50_s: Amount
    p95_s: Amount
    p99_s: Amount
    max_s: Amount


class Pass(Facts, frozen=True, kw_only=True):
    """One request that was answered: the server's times and the client's, kept apart."""

    case: str  # Which question it was: "short", "long", "depth 4096", "8 users"
    round: Count  # The number of the repeat; 0 is the warm-up, which counts for nothing
    started_s: Amount  # Since the benchmark began
    asked_tokens: Count
    prompt_tokens: Count  # Those that were computed
    cached_tokens: Count = 0
    generated_tokens: Count
    thinking_tokens: Count | None = None  # Of the generated ones; None where the server does not separate them
    ended_early: bool = False  # Whether the model stopped before it had generated what was asked
    server_prefill_s: Amount | None = None
    server_decode_s: Amount | None = None  # For the tokens after the first, whatever the runtime's own figure covers
    server_load_s: Amount | None = None
    server_queue_s: Amount | None = None
    client_first_token_s: Amount
    client_last_token_s: Amount
    client_total_s: Amount
    gaps: Gaps | None = None
    waited_for_cpu_s: Amount | None = None
    users: Count = 1


class Failure(Facts, frozen=True, kw_only=True):
    """One request that was not answered whole, and what came of it."""

    case: str
    round: Count
    started_s: Amount
    lasted_s: Amount
    kind: FailureKind
    why: str
    generated_tokens: Count = 0  # Pieces that had come before it failed


class Spread(Facts, frozen=True, kw_only=True):
    """A figure over repeats: the median and the interval that holds the true one in 95 of 100 benchmarks."""

    median: Amount
    low: Amount
    high: Amount
    count: Count
    spread: Amount = 0.0  # The robust standard deviation of the repeats over their median
    agree: bool = True  # Whether the repeats are of one kind; where not, the note says what was seen


class SweepPoint(Facts, frozen=True, kw_only=True):
    """One value of what is varied, and what came out."""

    at: Amount
    label: str = ""
    figures: dict[str, Spread] = msgspec.field(default_factory=dict)
    expected: dict[str, Amount] = msgspec.field(default_factory=dict)  # What physics expects there
    seen: dict[str, Amount] = msgspec.field(default_factory=dict)
    """What else was seen there: `vram_used_bytes`, `pcie_receive_bytes_per_s`, `own_cpus`."""
    failures: Count = 0
    note: str = ""


class Sweep(Facts, frozen=True, kw_only=True):
    """One thing varied while all else stays."""

    axis: str  # What was varied: depth, users, batch, ubatch, threads, minutes, load, turns
    points: tuple[SweepPoint, ...]
    verdict: str  # One word of the axis' own, such as `slope` or `cliff`; `cannot_tell` where undetermined
    because: str
    best: Amount | None = None
    knee: Amount | None = None
    """Where it turns: the depth of a cliff, the users beyond which nothing is gained, the minute of a drop."""
    stopped_early: str = ""  # Why not all values were tried; empty where all were


class Requirement(Facts, frozen=True, kw_only=True):
    """A condition that was set, and whether it holds."""

    asked: str
    holds: bool | None  # None where undetermined
    because: str


class Difference(Facts, frozen=True, kw_only=True):
    """One figure of two benchmarks, and whether it differs by more than noise."""

    metric: str
    before: Amount
    after: Amount  # Levels of the repeats that nothing disturbed; the figures of the benchmarks are medians of all
    ratio: Amount  # After over before
    low: Amount
    high: Amount  # What the ratio is with 95 % confidence, the differences between runs of the same thing included
    p_value: Fraction  # How often the same thing measured twice differs so much
    verdict: Change
    smallest: Amount  # The smallest difference, as a share, that this comparison finds in nine of ten cases
    because: str


class Comparison(Facts, frozen=True, kw_only=True):
    """Two benchmarks side by side."""

    before: str
    after: str  # Their ids
    verdict: Change  # Of the figures that matter most: decode, prefill and the first token
    because: str
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


class Bench(Facts, frozen=True, kw_only=True):
    """One benchmark of one model on one runtime."""

    schema: str = SCHEMA
    id: str
    unslow_version: str
    taken_at: str  # ISO 8601, UTC
    seconds: Amount
    protocol: Literal["standard", "quick", "sweep", "imported"]
    runtime: str
    runtime_version: str = ""
    model: str
    model_bytes: Count = 0
    machine: MachineMark = MachineMark()
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Every setting that is known, by the name of its fact: to tell what changed since."""
    conditions: dict[str, Amount] = msgspec.field(default_factory=dict)
    """What the machine was like meanwhile: `gpu_clock_hz`, `others_cpus`, `ram_read_bytes_per_s`."""
    passes: tuple[Pass, ...] = ()
    failures: tuple[Failure, ...] = ()
    figures: dict[str, Spread] = msgspec.field(default_factory=dict)
    samples: dict[str, tuple[Amount, ...]] = msgspec.field(default_factory=dict)
    """The repeats behind each figure, for a test of differences."""
    expected: dict[str, Amount] = msgspec.field(default_factory=dict)
    """What physics expects with these settings; `decode_tokens_per_s`, with `_low` and `_high` of the interval."""
    sweeps: tuple[Sweep, ...] = ()
    telemetry: Telemetry | None = None
    requirements: tuple[Requirement, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    label: str = ""


# A test as llama-bench writes it with `-o json`: its own names, in its own order, so that others' tools read it.
# What a version does not write, or what is not known, has the value that llama-bench gives where nothing is set.


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One test: how it was set up, how many tokens, and how long each repeat took."""

    build_commit: str = "unknown"
    build_number: int = 0
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    model_filename: str = ""
    model_type: str = ""
    model_size: int = 0
    model_n_params: int = 0
    n_batch: int = 0
    n_ubatch: int = 0
    n_threads: int = 0
    cpu_mask: str = "0x0"
    cpu_strict: bool = False
    poll: int = 50
    type_k: str = "f16"
    type_v: str = "f16"
    n_gpu_layers: int = -1
    n_cpu_moe: int = 0
    split_mode: str = "layer"
    main_gpu: int = 0
    no_kv_offload: bool = False
    flash_attn: int = -1  # 1 on, 0 off, -1 left to llama.cpp
    devices: str = "auto"
    tensor_split: str = "0.00"
    tensor_buft_overrides: str = "none"
    load_mode: str = "auto"
    lazy_mode: str = "auto"
    embeddings: bool = False
    no_op_offload: int = 0
    no_host: bool = False
    repack: bool = True
    fit_target: int = 0
    fit_min_ctx: int = 0
    n_prompt: int = 0
    n_gen: int = 0
    n_depth: int = 0
    test_time: str = ""
    avg_ns: int = 0
    stddev_ns: int = 0
    avg_ts: float = 0.0
    stddev_ts: float = 0.0
    samples_ns: tuple[int, ...] = ()
    samples_ts: tuple[float, ...] = ()

    @property
    def test(self) -> str:
        """The name that llama-bench gives the test: pp512, tg128 @ d4096, pp512+tg128."""
        parts = [f"pp{self.n_prompt}"] * (self.n_prompt > 0) + [f"tg{self.n_gen}"] * (self.n_gen > 0)
        return "+".join(parts) + (f" @ d{self.n_depth}" if self.n_depth else "")


class Entry(NamedTuple):
    """A benchmark in the list."""

    id: str
    taken_at: str
    label: str
    protocol: str
    runtime: str
    runtime_version: str
    model: str
    seconds: float
    decode_tokens_per_s: float | None
    prefill_tokens_per_s: float | None
    answered: int
    failed: int
    state: State


class HistoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the benchmarks that are kept, or what was just done to them."""

    schema: str = "unslow.benchmarks/1"
    what: Literal["kept", "imported", "forgotten"] = "kept"
    path: str
    total: int  # How many are kept in all
    benchmarks: tuple[Entry, ...]


def parse_bench(data: bytes, where: str) -> Bench:
    """A stored benchmark; UserError where it is none, or one of another version."""
    hint = "`unslow bench --list` shows the stored benchmarks"
    return parse_stored(data, Bench, where, "benchmark", LARGEST_BENCH_BYTES, hint)
