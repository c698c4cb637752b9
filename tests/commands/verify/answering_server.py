"""A simulated llama-server with its own answers and token probabilities, on a simulated clock."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deep_server import DeepServer

from unslow.look.system import Answer, Line

WORDS = ("river", "house", "garden", "window", "letter", "island", "morning", "captain", "winter", "bread", "clock")


@dataclass
class AnsweringServer(DeepServer):
    """Servers of one `mind` answer alike; `worse` is what it loses at each place of a text."""

    mind: int = 1
    worse: float = 0.0
    turns: str = ""
    """What it writes for a conversation; one that does not show it answers something else."""

    def request(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout_s: float = 0
    ) -> Answer:
        if url.endswith("/apply-template") and self.turns:
            return Answer(200, json.dumps({"prompt": self.turns}).encode())
        if not url.endswith("/completion"):
            return super().request(method, url, body, headers, timeout_s)
        self.now_s += 0.001
        wanted, place = body["logit_bias"][0][0], len(body["prompt"])
        dice = random.Random(place)
        chosen = random.Random(place * 1000 + self.mind).randrange(1000)
        token = {"id": wanted, "logprob": -dice.expovariate(0.5) - self.worse, "top_logprobs": [{"id": chosen}]}
        return Answer(200, json.dumps({"completion_probabilities": [token]}).encode())

    def stream(
        self, url: str, body: Any, headers: Mapping[str, str] | None = None, timeout_s: float = 0, silence_s: float = 0
    ) -> Iterator[Line]:
        if failure := self.fails(self.since_s):
            raise failure
        dice = random.Random(f"{self.mind} {body['prompt']}")
        for line in super().stream(url, body, headers, timeout_s, silence_s):
            event = json.loads(line.text.removeprefix("data: "))
            if body.get("top_k") == 1 and not event["stop"]:
                event["content"] = f" {dice.choice(WORDS)}"
            yield Line(line.seconds, "data: " + json.dumps(event))
