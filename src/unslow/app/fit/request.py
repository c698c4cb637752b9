"""What a user asks of `unslow fit`, checked."""

import re
from typing import Any, NamedTuple, Self

from unslow.facts.errors import UserError
from unslow.facts.units import GIB, KIB, MIB

RUNTIMES = ("llama_cpp", "ollama", "vllm", "transformers")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
OTHER_CACHE_TYPES = ("f16", "bf16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2")
_UNITS = {"": MIB, "k": KIB, "kb": KIB, "kib": KIB, "m": MIB, "mb": MIB, "mib": MIB, "g": GIB, "gb": GIB, "gib": GIB,
          "t": 1024 * GIB, "tb": 1024 * GIB, "tib": 1024 * GIB}  # fmt: skip
"""A memory of 24 GB has 24 GiB, whatever a disk of 24 GB has."""
_RUNTIME_WORDS = {
    "llamacpp": "llama_cpp",
    "llamaserver": "llama_cpp",
    "hf": "transformers",
    "huggingface": "transformers",
}
_CACHE_WORDS = {"q8": "q8_0", "q4": "q4_0", "q5": "q5_0", "fp16": "f16", "fp32": "f32"}
_COUNT = re.compile(r"(\d{1,12})([km]?)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kmgt]i?b?|)", re.IGNORECASE)
_LARGEST = 2**31 - 1


class Request(NamedTuple):
    """The flags of the command; None is what llama.cpp would choose."""

    model: str
    devices: tuple[str, ...] = ("auto",)
    quant: str | None = None
    runtime: str = "llama_cpp"
    runtime_named: bool = False
    """Whether the user did: else a model of Ollama's store is for Ollama."""
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
    gpu_memory_utilization: float | None = None
    """None is what vLLM takes by itself."""

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        known = {k: v for k, v in flags.items() if k in cls._fields and v is not None}
        lists = {k: tuple(v) for k, v in known.items() if isinstance(v, list)}
        sizes = {k: parsed_size(v) for k, v in known.items() if k.endswith("_bytes") and isinstance(v, str)}
        counts = {k: parsed_count(k, v) for k, v in known.items() if k in _LOWEST and isinstance(v, str)}
        return cls(**{**known, **lists, **sizes, **counts}, runtime_named="runtime" in known).spelled().checked()

    def spelled(self) -> Self:
        """With the words that people use for runtimes and types as this program has them."""
        runtime = re.sub(r"[^a-z]", "", self.runtime.lower())
        kinds = (_CACHE_WORDS.get(k.lower(), k.lower()) if k else k for k in (self.kv_type, self.kv_type_v))
        key, value = kinds
        return self._replace(
            runtime=_RUNTIME_WORDS.get(runtime, runtime or self.runtime), kv_type=key or "f16", kv_type_v=value
        )

    def checked(self) -> Self:
        """Itself, or a UserError that names the value and what is possible."""
        for name, low in _LOWEST.items():
            value = getattr(self, name)
            high = _HIGHEST.get(name, _LARGEST)
            if value is not None and not low <= value <= high:
                raise UserError(
                    f"--{name.replace('_', '-')} {value} can't be", f"it is a number from {low} to {high:,}"
                )
        if self.runtime not in RUNTIMES:
            raise UserError(f"there is no runtime {self.runtime!r}", f"try one of {', '.join(RUNTIMES)}")
        known = CACHE_TYPES if self.runtime in ("llama_cpp", "ollama") else OTHER_CACHE_TYPES
        for kind in (self.kv_type, self.kv_type_v or self.kv_type):
            if kind.lower() not in known:
                raise UserError(f"a cache can't be of the type {kind!r}", f"{self.runtime} knows {', '.join(known)}")
        if self.gpu_memory_utilization is not None and not 0 < self.gpu_memory_utilization <= 1:
            raise UserError(
                "--gpu-memory-utilization is a share from 0 to 1", "vLLM's own default is 0.92 (before 0.20: 0.9)"
            )
        return self


_LOWEST = {
    "context": 0, "batch": 1, "ubatch": 1, "parallel": 1, "outputs": 0, "gpu_layers": -1, "n_cpu_moe": 0,
}  # fmt: skip


_HIGHEST = {"context": 2**27, "ubatch": 2**16, "batch": 2**20, "parallel": 256, "outputs": 2**20}


def parsed_count(name: str, text: str) -> int:
    """A whole number, from `8192` or `128k`, which is 128 times 1024; UserError where it is none."""
    match = _COUNT.fullmatch(text.strip().removeprefix("-")) if text.strip() != "auto" else None
    if not match:
        raise UserError(f"--{name.replace('_', '-')} {text!r} is no number", "write it like 8192 or 128k")
    number = int(match[1]) * {"": 1, "k": KIB, "m": MIB}[match[2].lower()]
    return -number if text.strip().startswith("-") else number


def parsed_size(text: str) -> int:
    """Bytes, from `512`, which is MiB as llama.cpp counts margins, `24GB` or `24GiB`; UserError where it is neither."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UserError(f"{text!r} is no size of memory", "write it like 24GB, 512MiB or 1TB")
    return int(float(match[1]) * _UNITS[match[2].lower()])
