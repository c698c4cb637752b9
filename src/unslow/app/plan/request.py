"""What a user asks of `unslow plan`, checked."""

import math
import re
from typing import Any, NamedTuple, Self

from unslow.app.fit.request import parsed_count, parsed_size
from unslow.app.predict.request import parsed_speed
from unslow.facts.errors import UserError
from unslow.think.plan.report import Aim

AIMS: tuple[Aim, ...] = ("speed", "context", "quality")
RUNTIMES = ("llama.cpp", "ollama", "lm_studio", "vllm", "transformers")
_WORDS = {
    "llamacpp": "llama.cpp", "llamaserver": "llama.cpp", "ollama": "ollama", "lmstudio": "lm_studio",
    "lms": "lm_studio", "vllm": "vllm", "transformers": "transformers", "hf": "transformers",
    "huggingface": "transformers",
}  # fmt: skip
_LIMITS = {"context": (256, 2**27), "prompt": (1, 2**24), "kept": (0, 2**24), "answer": (1, 2**20), "users": (1, 256),
           "threads": (1, 4096)}  # fmt: skip
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%?")


class PlanRequest(NamedTuple):
    """The flags of the command; None is what the program chooses, or reads from what runs."""

    model: str | None = None
    devices: tuple[str, ...] = ("auto",)
    ram_bytes: int | None = None
    runtime: str = "llama.cpp"
    quant: str | None = None
    aim: Aim = "speed"
    context: int | None = None
    prompt: int | None = None
    kept: int = 0
    answer: int = 256
    users: int = 1
    least_tokens_per_s: float | None = None
    worst_perplexity_increase: float | None = None
    margin_bytes: int | None = None
    threads: int | None = None
    ram_bandwidth: float | None = None
    """Bytes per second that the host's memory delivers."""
    draft: str | None = None
    given: frozenset[str] = frozenset()
    """The flags that the user wrote; the others may be filled in by what was seen."""
    this_work_only: bool = False
    """Whether longer prompts and conversations than this may get slower."""

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        given = {k: v for k, v in flags.items() if k in cls._fields and v is not None}
        lists = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
        counts = {k: parsed_count(k, v) for k, v in given.items() if k in _LIMITS and isinstance(v, str)}
        sizes = {k: parsed_size(v) for k, v in given.items() if k.endswith("_bytes") and isinstance(v, str)}
        others: dict[str, Any] = {}
        if "ram_bandwidth" in given:
            others["ram_bandwidth"] = parsed_speed(str(given["ram_bandwidth"]))
        if "worst_perplexity_increase" in given:
            others["worst_perplexity_increase"] = parsed_share(str(given["worst_perplexity_increase"]))
        written = frozenset(given) - {"model"}
        return cls(**{**given, **lists, **counts, **sizes, **others}, given=written).spelled().checked()

    def spelled(self) -> Self:
        """With the words that people use for runtimes as this program has them."""
        plain = re.sub(r"[^a-z]", "", self.runtime.lower())
        return self._replace(runtime=_WORDS.get(plain, self.runtime))

    def with_seen(self, **seen: int | None) -> Self:
        """With what was seen, where the user wrote nothing."""
        known: dict[str, Any] = {k: v for k, v in seen.items() if v is not None and k not in self.given}
        return self._replace(**known)

    def checked(self) -> Self:
        """Itself, or a UserError that names the value and what is possible."""
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UserError(f"--{name} {value} can't be", f"it is from {low} to {high:,}")
        if self.runtime not in RUNTIMES:
            raise UserError(f"there is no runtime {self.runtime!r}", f"try one of {', '.join(RUNTIMES)}")
        if self.aim not in AIMS:
            raise UserError(f"--goal {self.aim!r} is not known", f"try one of {', '.join(AIMS)}")
        if self.least_tokens_per_s is not None and not 0 < self.least_tokens_per_s < math.inf:
            raise UserError("--least-speed is a number of tokens per second above 0", "such as --least-speed 10")
        if self.ram_bytes == 0:
            raise UserError("--ram 0: every model needs some of the host's memory", "such as --ram 32GB")
        if self.aim != "speed" and self.least_tokens_per_s is None:
            raise UserError(f"--goal {self.aim} needs a speed that it must not fall below", "add --least-speed 10")
        return self


def parsed_share(text: str) -> float:
    """A share from a percentage such as `1%` or `0.5`; UserError where it is none."""
    match = _PERCENT.fullmatch(text.strip())
    if not match:
        raise UserError(f"{text!r} is no percentage", "write it like 1% or 0.5%")
    return float(match[1]) / 100
