"""A llama-server in a simulated clock whose speed depends on the depth, and which keeps prompts, or does not."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulated_server import SimulatedServer

from unslow.look.system import Answer, ExchangeError, Line


@dataclass
class DeepServer(SimulatedServer):
    """Words are its tokens; `token_s` is what one takes at a depth and a time."""

    token_s: Callable[[float, float], float] = lambda depth, _now: 0.012 + 5e-6 * depth
    prompt_token_s: float = 1e-3
    keeps: bool = True
    context: int = 1_000_000
    noise: float = 0.01
    prompts: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def request(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout_s: float = 0
    ) -> Answer:
        if url.endswith("/tokenize"):
            return Answer(200, json.dumps({"tokens": [len(word) for word in body["content"].split()]}).encode())
        return super().request(method, url, body, headers, timeout_s)

    def stream(
        self, url: str, body: Any, headers: Mapping[str, str] | None = None, timeout_s: float = 0, silence_s: float = 0
    ) -> Iterator[Line]:
        words, tokens, start = body["prompt"].split(), body["n_predict"], self.now_s
        self.prompts.append(body["prompt"])
        if len(words) + tokens > self.context:
            raise ExchangeError("error", f"{url} answered 400: the request exceeds the available context size")
        cached = self._common(words) if body["cache_prompt"] else 0
        self.now_s += (len(words) - cached) * self.prompt_token_s
        step = self.token_s(len(words), self.since_s) * self.dice.lognormvariate(0, self.noise)
        for number in range(tokens):
            self.now_s += step if number else 0.0
            yield Line(self.now_s - start, "data: " + json.dumps({"content": f" word{number}", "stop": False}))
        self.kept = words + [f"word{number}" for number in range(tokens - 1)]
        timings = {
            "prompt_n": len(words) - cached, "prompt_ms": (len(words) - cached) * self.prompt_token_s * 1e3,
            "cache_n": cached, "predicted_n": tokens, "predicted_ms": (tokens - 1) * step * 1e3,
        }  # fmt: skip
        yield Line(self.now_s - start, "data: " + json.dumps({"content": "", "stop": True, "timings": timings}))

    def _common(self, words: list[str]) -> int:
        """Words at the start that it knows already, of which the last is always computed."""
        same = 0
        while self.keeps and same < min(len(words) - 1, len(self.kept)) and words[same] == self.kept[same]:
            same += 1
        return same
