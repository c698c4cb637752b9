"""A model of a server at work: so many requests at once, a token each after every gap; all its counters follow."""

from typing import NamedTuple


class Engine(NamedTuple):
    """What is asked of it and how fast it is; as many requests begin as end."""

    model: str
    running: float = 12.0
    gap_s: float = 0.012
    """Between two tokens of one request."""
    prefill_s: float = 0.12
    prompt_tokens: float = 900.0
    answer_tokens: float = 240.0
    waiting: float = 0.0
    preemptions_per_s: float = 0.0
    cache_tokens: float = 400_000.0
    """Room of the KV cache."""
    cache_used: float | None = None
    """By the requests at once where it is not said."""
    hits: float = 0.2
    """Share of prompt tokens that were in the cache."""
    memory_share: float = 0.92
    context: int = 32_768
    places: int = 256
    ranks: int = 1
    """GPUs that share every layer."""
    runtime: str = "vLLM"
    version: str = "0.11.2"
    age_s: float = 90_000.0
    """Since its process started."""

    @property
    def requests_per_s(self) -> float:
        """Those that end, by Little's law."""
        return self.running / (self.prefill_s + self.decode_s)

    @property
    def decode_s(self) -> float:
        """Of one answer, after its first token."""
        return self.gap_s * (self.answer_tokens - 1)

    @property
    def tokens_per_s(self) -> float:
        """Of all answers together."""
        return self.requests_per_s * self.answer_tokens

    @property
    def queue_s(self) -> float:
        """How long a request waits for a place."""
        return self.waiting / self.requests_per_s + 3e-5 if self.requests_per_s else 0.0

    @property
    def usage(self) -> float:
        """Share of the KV cache in use."""
        held = self.running * (self.prompt_tokens + self.answer_tokens / 2) / self.cache_tokens
        return min(1.0, held if self.cache_used is None else self.cache_used)
