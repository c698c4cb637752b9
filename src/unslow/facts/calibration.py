"""What was measured of one machine with one engine, so that predictions need not be made from data sheets."""

from typing import Literal

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.stored_json import parse_stored
from unslow.facts.values import Amount, Bytes, Count, Fraction

SCHEMA = "unslow.calibration/1"
LARGEST_BYTES = 1024**2


class Demand(Facts, frozen=True, kw_only=True):
    """What a model asks of an engine, in the numbers that decide its time; counts that experts divide may be broken."""

    bytes_by_type: dict[str, Amount]  # Weights that one generated token reads, by the ggml type they are stored in
    layer_bytes_by_type: dict[str, Amount]
    """The same without the output matrix, which a prompt needs once and not for each of its tokens."""
    expert_bytes: Amount = 0.0
    """Of those, the share of experts: a prompt meets many of them, each with a few of its tokens."""
    layers: Count
    operations: Amount  # Tensors in the layers: the threads meet after each, and a GPU starts a kernel or two
    rows: Amount  # Rows of those tensors: a dot product starts and ends with each
    vocabulary: Count
    attention_elements: Amount  # Of keys and values, counted once for each query head that looks at them, at this depth
    kv_bytes: Amount  # Keys and values at this depth
    depth_tokens: Count = 0


class TypeRate(Facts, frozen=True, kw_only=True):
    """How fast weights of one ggml type are read and multiplied."""

    type: str
    decode_bytes_per_s: Amount
    prefill_bytes_per_s: Amount = 0.0
    """Bytes of weights times tokens of the prompt, for each second; 0 where no prompt was measured."""


class Rates(Facts, frozen=True, kw_only=True):
    """The costs that add up to the time of a token, and of a prompt, at its best."""

    types: tuple[TypeRate, ...]
    step_s: Amount
    operation_s: Amount
    row_s: Amount
    vocabulary_entry_s: Amount
    attention_element_s: Amount
    kv_byte_s: Amount
    prefill_operation_s: Amount = 0.0
    prefill_attention_element_s: Amount = 0.0
    prefill_expert_byte_s: Amount = 0.0
    """What a byte in an expert costs beyond other bytes of its type, for each token of a prompt."""
    error: Fraction  # How far these costs are off for the points that they were learned from, in the median


class Scale(Facts, frozen=True, kw_only=True):
    """The speed of the one model that a running server had loaded, against what was expected of it."""

    model: str
    measured_decode_s: Amount
    expected_decode_s: Amount
    measured_prefill_tokens_per_s: Amount = 0.0

    @property
    def factor(self) -> float:
        """How many times longer a token took than expected."""
        return self.measured_decode_s / self.expected_decode_s if self.expected_decode_s else 1.0


class Point(Facts, frozen=True, kw_only=True):
    """A model that was measured, and the time of its tokens."""

    name: str
    demand: Demand
    samples: Count
    lost: Count = 0  # Samples that were broken off, because something else held the processors
    decode_s: Amount  # Of a token, at its best
    typical_s: Amount  # In the median
    prompt_tokens: Count = 0
    prefill_s: Amount = 0.0  # Of the whole prompt, at its best; 0 where none was measured


class MachineMark(Facts, frozen=True, kw_only=True):
    """By what a machine is known again; empty or 0 where it could not be told."""

    cpu: str = ""
    cores: Count = 0
    memory_bytes: Bytes = 0
    gpus: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    kernel: str = ""


class Calibration(Facts, frozen=True, kw_only=True):
    """One machine, one engine in one version, one device, one number of threads."""

    schema: str = SCHEMA
    unslow_version: str
    taken_at: str  # ISO 8601, UTC
    seconds: Amount  # How long it took
    machine: MachineMark
    engine: str
    engine_version: str
    backend: Literal["cpu", "gpu"]
    device: str
    threads: Count
    cache_bytes: Bytes = 0  # The processors' last cache; 0 where it is not known
    ram_read_bytes_per_s: Amount = 0.0
    others_cpus: Amount = 0.0  # Processors that other programs used meanwhile
    drift: Amount = 1.0
    """How many times longer a token takes in the median than at its best; on a calm machine hardly any."""
    disturbed: str = ""  # Why these figures are to be taken with care; empty where nothing was in the way
    rates: Rates | None = None
    scale: Scale | None = None
    points: tuple[Point, ...] = ()


class KeptCalibration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kept calibration, or a file that is none."""

    path: str
    calibration: Calibration | None = None
    problem: str = ""
    stale: tuple[str, ...] = ()


class KeptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept, newest first."""

    schema: str = "unslow.calibrations/1"
    folder: str
    calibrations: tuple[KeptCalibration, ...]


def parse_calibration(data: bytes, where: str) -> Calibration:
    """A stored calibration; UserError where it is none, or one of another version."""
    hint = f"remove it, or measure again with `unslow calibrate`: {where}"
    return parse_stored(data, Calibration, where, "calibration", LARGEST_BYTES, hint)
