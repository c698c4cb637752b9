"""A llama-server that lives in a simulated clock: hours of it pass in a moment, and it fails on time."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from doubles import FakeSystem

from unslow.look.system import Answer, ExchangeError, Line, LookError

Failing = Callable[[float], LookError | None]


@dataclass
class SimulatedServer(FakeSystem):
    """Generates at a rate that depends on the time; `fails` says how a request that begins then ends."""

    rate: Callable[[float], float] = lambda _now: 50.0
    fails: Failing = lambda _now: None
    """Half of the answer comes first where the failure is one in its middle."""
    is_up: Callable[[float], bool] = lambda _now: True
    now_s: float = 1000.0
    asked: list[float] = field(default_factory=list)
    polled: int = 0
    interrupt_at_s: float = float("inf")

    def clock(self) -> float:
        if self.now_s >= self.interrupt_at_s:
            self.interrupt_at_s = float("inf")
            raise KeyboardInterrupt
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 0.0)

    @property
    def since_s(self) -> float:
        return self.now_s - 1000.0

    def request(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout_s: float = 0
    ) -> Answer:
        self.polled += 1
        self.now_s += 0.001
        if not self.is_up(self.since_s):
            raise ExchangeError("refused", f"{url}: nothing listens there")
        return Answer(200, b'{"status":"ok"}')

    def stream(
        self, url: str, body: Any, headers: Mapping[str, str] | None = None, timeout_s: float = 0, silence_s: float = 0
    ) -> Iterator[Line]:
        self.asked.append(self.since_s)
        start = self.now_s
        if not self.is_up(self.since_s):
            self.now_s += 0.001
            raise ExchangeError("refused", f"{url}: nothing listens there")
        failure, tokens = self.fails(self.since_s), body["n_predict"]
        for number in range(tokens):
            if failure and number == (
                0 if isinstance(failure, ExchangeError) and failure.kind == "error" else tokens // 2
            ):
                self.now_s += silence_s if isinstance(failure, ExchangeError) and failure.kind == "silent" else 0.0
                raise failure
            self.now_s += 1 / self.rate(self.since_s)
            yield Line(self.now_s - start, "data: " + json.dumps({"content": "word ", "stop": False}))
        seconds = (tokens - 1) / self.rate(self.since_s)
        timings = {"prompt_n": 12, "prompt_ms": 20.0, "predicted_n": tokens, "predicted_ms": seconds * 1000}
        yield Line(self.now_s - start, "data: " + json.dumps({"content": "", "stop": True, "timings": timings}))
