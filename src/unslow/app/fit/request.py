"""What a user asks of `unslow fit`, checked."""

import re
from typing import Any, NamedTuple, Self

from unslow.facts.errors import UserError
from unslow.facts.units import GB, GIB, KB, KIB, MB, MIB

RUNTIMES = ("llama_cpp", "ollama", "vllm", "transformers")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
OTHER_CACHE_TYPES = ("f16", "bf16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2")
_UNITS = {"": MIB, "k": KB, "kb": KB, "kib": KIB, "m": MIB, "mb": MB, "mib": MIB, "g": GIB, "gb": GB, "gib": GIB}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b?|)", re.IGNORECASE)
_LARGEST = 2**31 - 1


class Request(NamedTuple):
    """The flags of the command; None is what llama.cpp would choose."""

    model: str
    devices: tuple[str, ...] = ("auto",)
    quant: str | None = None
    runtime: str = "llama_cpp"
    context: int | None = None
    kv_type: str = "f16"
    kv_type_v: str | None = None
    kv_unified: bool | None = None
    kv_offload: bool = True
    swa_full: bool = False
    gpu_layers: int | None = None
    n_cpu_moe: int = 0
    override_tensor: tuple[str, ...] = ()
    tensor_split: tuple[float, ...] = ()
    batch: int | None = None
    ubatch: int | None = None
    outputs: int | None = None
    parallel: int | None = None
    flash_attention: str = "auto"
    op_offload: bool = True
    margin_bytes: int | None = None
    ram_bytes: int | None = None
    gpu_memory_utilization: float = 0.9

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        known = {k: v for k, v in flags.items() if k in cls._fields and v is not None}
        lists = {k: tuple(v) for k, v in known.items() if isinstance(v, list)}
        sizes = {k: parsed_size(v) for k, v in known.items() if k.endswith("_bytes") and isinstance(v, str)}
        return cls(**{**known, **lists, **sizes}).checked()

    def checked(self) -> Self:
        """Itself, or a UserError that names the value and what is possible."""
        for name, low in _LOWEST.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= _LARGEST:
                raise UserError(f"--{name.replace('_', '-')} {value} can't be", f"it is a number from {low} on")
        if self.runtime not in RUNTIMES:
            raise UserError(f"there is no runtime {self.runtime!r}", f"try one of {', '.join(RUNTIMES)}")
        known = CACHE_TYPES if self.runtime in ("llama_cpp", "ollama") else OTHER_CACHE_TYPES
        for kind in (self.kv_type, self.kv_type_v or self.kv_type):
            if kind.lower() not in known:
                raise UserError(f"a cache can't be of the type {kind!r}", f"{self.runtime} knows {', '.join(known)}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise UserError("--gpu-memory-utilization is a share from 0 to 1", "vLLM's own default is 0.9")
        return self


_LOWEST = {
    "context": 1, "batch": 1, "ubatch": 1, "parallel": 1, "outputs": 0, "gpu_layers": -1, "n_cpu_moe": 0,
}  # fmt: skip


def parsed_size(text: str) -> int:
    """Bytes, from `512`, which is MiB as llama.cpp counts margins, `24GB` or `24GiB`; UserError where it is neither."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UserError(f"{text!r} is no size of memory", "write it like 24GB, 24GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])
