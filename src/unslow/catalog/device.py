"""What a datasheet says of a device, and where each number was seen."""

from typing import Literal

import msgspec


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A speed that somebody published for one stream of text on a device."""

    model: str
    tokens_per_s: float
    said_by: str
    source: str
    note: str = ""


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a datasheet says; `source` is that of the bandwidth, `sources` has one for each other number.

    A source is "unverified" where nobody checked the number against a second table. A number that is not known is 0.
    """

    name: str
    vendor: str
    source: str
    memory_bytes_per_s: float = 0.0
    kind: Literal["gpu", "unified", "cpu", "asic"] = "gpu"
    """A GPU with a memory of its own, one that shares the host's, the host's memory, or a chip made for inference."""
    family: str = ""
    """The architecture, such as ampere, rdna3 or m2."""
    also: tuple[str, ...] = ()
    """Other names of it, in which `*` and `?` stand for any letters and for one."""
    usual: bool = False
    """Whether a name without a size of memory and a form means this one of its variants."""
    memory_bytes: int = 0
    """As labelled; 0 where the same device is sold with many sizes."""
    memory_sizes_bytes: tuple[int, ...] = ()
    """The sizes that it is sold with, where they are several."""
    memory_channels: int = 0
    driver_bytes: int = 0
    """What the driver reports as total, which error correction and firmware make less than the label."""
    driver_source: str = ""
    units: int = 0
    """Streaming multiprocessors, compute units, Xe cores, GPU cores, or the cores of a host."""
    clock_hz: float = 0.0
    """The boost clock, as labelled."""
    narrow_cores: bool = False
    """Whether the cores of a host multiply vectors of 128 bits, two at once: small x86 cores, and most of Arm's."""
    fp16_flops_per_s: float = 0.0
    """Dense FP16 products and sums, by the matrix units where it has them; sums in FP16 where that is quicker."""
    fp16_acc32_flops_per_s: float = 0.0
    """The same with sums in FP32: half as many on GeForce cards since Turing, as many elsewhere."""
    fp32_flops_per_s: float = 0.0
    """By the shaders."""
    int8_ops_per_s: float = 0.0
    """Dense, by the matrix units where they can, else by dot products of four bytes (dp4a)."""
    l2_bytes: int = 0
    """The last cache before the memory, which AMD calls Infinity Cache."""
    tdp_w: float = 0.0
    pcie: str = ""
    """Generation and lanes, such as 4.0x16."""
    link_bytes_per_s: float = 0.0
    """NVLink or its like, both directions together."""
    year: int = 0
    launch_usd: float = 0.0
    sources: dict[str, str] = {}
    results: tuple[Result, ...] = ()

    def __hash__(self) -> int:
        """Names are unique."""
        return hash(self.name)

    @property
    def unified(self) -> bool:
        """Whether its memory is the host's too."""
        return self.kind == "unified"

    @property
    def verified(self) -> bool:
        """Whether a second source was seen."""
        return not self.source.startswith("unverified")

    @property
    def capacity_bytes(self) -> int:
        """What a program sees of its memory, as far as known."""
        return self.driver_bytes or self.memory_bytes
