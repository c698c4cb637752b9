"""What a user asks of `unslow predict` for one case, checked."""

import re
from typing import Any, NamedTuple, Self

from unslow.app.fit.request import CACHE_TYPES, OTHER_CACHE_TYPES, parsed_count, parsed_size
from unslow.facts.errors import UserError
from unslow.facts.units import GB, GIB, MB, MIB

RUNTIMES = {"llama.cpp": "", "ollama": "", "vllm": "vllm", "transformers": "transformers"}
"""By the name that its factors were learned under; llama.cpp and what is built on it have none."""
BACKENDS = {
    "cuda": "cuda", "rocm": "rocm", "hip": "rocm", "metal": "metal", "mlx": "metal", "vulkan": "vulkan",
    "sycl": "vulkan", "cpu": "cpu",
}  # fmt: skip
SPLITS = ("layer", "row", "tensor")
_BUILT_ON_LLAMA_CPP = ("llamacpp", "llamaserver", "llamacli", "llamafile", "lmstudio", "koboldcpp", "jan", "gpt4all")
_RUNTIME_WORDS = {**dict.fromkeys(_BUILT_ON_LLAMA_CPP, "llama.cpp"), "ollama": "ollama", "vllm": "vllm",
                  "hf": "transformers", "transformers": "transformers"}  # fmt: skip
_WRITTEN = {"depth": "context"}
"""Flags that people know by another name than this program does."""
_LLAMA_CPP_ALONE = ("gpu_layers", "cpu_moe")
_CACHE_WORDS = {"q8": "q8_0", "q4": "q4_0", "q5": "q5_0", "fp16": "f16", "fp32": "f32"}
_LIMITS = {
    "gpus": (1, 64), "depth": (0, 2**27), "gpu_layers": (0, 10_000), "cpu_moe": (0, 10_000), "batch": (1, 4096),
    "prompt": (1, 2**24), "ubatch": (1, 2**16), "threads": (1, 4096), "draft_tokens": (1, 64),
}  # fmt: skip
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kmgt]?i?b?)(?:/s|ps)?", re.IGNORECASE)
_SPEED_UNITS = {"": GB, "gb": GB, "g": GB, "gib": GIB, "mb": MB, "mib": MIB, "tb": 1000 * GB, "t": 1000 * GB,
                "tib": 1024 * GIB}  # fmt: skip


class Request(NamedTuple):
    """The flags of the command; None is what the program chooses."""

    model: str
    quant: str | None = None
    devices: tuple[str, ...] = ("auto",)
    gpus: int | None = None
    depth: int = 0
    gpu_layers: int | None = None
    cpu_moe: int | None = None
    kv_type: str = "f16"
    runtime: str = "llama.cpp"
    runtime_named: bool = False
    """Whether the user did: else a model of Ollama's store is for Ollama."""
    backend: str = ""
    split: str = ""
    """Empty is the runtime's usual way."""
    batch: int = 1
    prompt: int = 512
    ubatch: int = 512
    flash_attention: bool = True
    graphs: bool = True
    threads: int | None = None
    ram_bandwidth: float | None = None
    """Bytes per second that the host's memory delivers."""
    ram_bytes: int | None = None
    draft: str = ""
    draft_tokens: int = 4
    acceptance: float | None = None
    explain: bool = False

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        known = {k: v for k, v in flags.items() if k in cls._fields and v is not None}
        if str(known.get("gpu_layers", "")).strip().lower() in {"auto", "all"}:
            known["gpu_layers"] = _LIMITS["gpu_layers"][1] if known["gpu_layers"] == "all" else None
        lists = {k: tuple(v) for k, v in known.items() if isinstance(v, list)}
        counts = {k: parsed_count(_flag(k), v) for k, v in known.items() if k in _LIMITS and isinstance(v, str)}
        if "draft_tokens" in known and not known.get("draft"):
            raise UserError("--draft-tokens without a draft model", "name it: --draft qwen3-0.6b")
        given = {**known, **lists, **counts}
        if "ram_bandwidth" in given:
            given["ram_bandwidth"] = parsed_speed(str(given["ram_bandwidth"]))
        if "ram_bytes" in given:
            given["ram_bytes"] = parsed_size(str(given["ram_bytes"]))
        return cls(**given, runtime_named="runtime" in known).spelled().checked()

    def spelled(self) -> Self:
        """With the words that people use for runtimes and types as this program has them."""
        plain = re.sub(r"[^a-z0-9]", "", self.runtime.lower())
        kind = self.kv_type.lower()
        return self._replace(
            runtime=_RUNTIME_WORDS.get(plain, self.runtime),
            kv_type=_CACHE_WORDS.get(kind, kind),
            backend=self.backend.lower(),
            split=self.split.lower(),
        )

    def checked(self) -> Self:
        """Itself, or a UserError that names the value and what is possible."""
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UserError(f"--{_flag(name)} {value} can't be", f"it is from {low} to {high:,}")
        _one_of("runtime", self.runtime, tuple(RUNTIMES))
        if self.split:
            _one_of("split", self.split, SPLITS)
        if self.backend:
            _one_of("backend", self.backend, tuple(BACKENDS))
        known = CACHE_TYPES if self.is_llama_cpp else OTHER_CACHE_TYPES
        _one_of("kv-type", self.kv_type, known)
        if not self.is_llama_cpp and (given := [n for n in _LLAMA_CPP_ALONE if getattr(self, n) is not None]):
            raise UserError(f"--{_flag(given[0])} is a setting of llama.cpp, not of {self.runtime}", "leave it out")
        self._check_draft()
        return self

    def _check_draft(self) -> None:
        if self.acceptance is not None and not 0 <= self.acceptance <= 1:
            raise UserError(f"--acceptance {self.acceptance:g} can't be", "it is a share from 0 to 1, such as 0.7")
        if self.acceptance is not None and not self.draft:
            raise UserError("--acceptance without a draft model", "name it: --draft qwen3-0.6b")
        if self.draft and self.batch > 1:
            raise UserError("--draft and --batch together are not predicted", "leave one of them out")

    @property
    def is_llama_cpp(self) -> bool:
        """Whether llama.cpp does the work."""
        return not RUNTIMES[self.runtime]


def _flag(name: str) -> str:
    return _WRITTEN.get(name, name).replace("_", "-")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"--{name} {value!r} is not known", f"try one of {', '.join(known)}")


def parsed_speed(text: str) -> float:
    """Bytes per second, from `80`, which is GB/s, `80GB/s` or `1.8TB/s`; UserError where it is none."""
    match = _SPEED.fullmatch(text.strip())
    factor = _SPEED_UNITS.get(match[2].lower()) if match else None
    if not match or not factor or not float(match[1]):
        raise UserError(f"{text!r} is no speed of memory", "write it like 80GB/s")
    return float(match[1]) * factor
