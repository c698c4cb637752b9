"""The standard protocol against a server with a simulated clock."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.protocol import QUICK, SETTLE, STANDARD, requests_for, run_protocol
from unslow.facts.snapshot import Subject
from unslow.look.bench.prompts import PROMPTS
from unslow.look.requests import Target
from unslow.look.system import ExchangeError, Line

URL = "http://127.0.0.1:1"


@dataclass
class Listening(SimulatedServer):
    """Keeps what it was asked."""

    bodies: list[dict[str, Any]] = field(default_factory=list)

    def stream(self, url: str, body: Any, *others: Any) -> Iterator[Line]:
        self.bodies.append(body)
        return super().stream(url, body, *others)


def bencher_of(system: SimulatedServer, runtime: str = "llama.cpp") -> Bencher:
    return Bencher(system, Subject(), Target(URL, runtime=runtime), Quiet())


def test_both_prompts_are_sent_equally_often_and_start_differently():
    system = Listening()
    assert run_protocol(bencher_of(system), QUICK) == ""
    short = [body["prompt"] for body in system.bodies if body["n_predict"] == QUICK.tokens]
    assert [sum(prompt.endswith(question) for prompt in short) for question in PROMPTS] == [3, 3]
    assert len({body["prompt"].split()[0] for body in system.bodies}) == len(system.bodies)


def test_settling_request_follows_every_measured_request():
    bencher = bencher_of(Listening())
    run_protocol(bencher, QUICK)
    cases = [done.case for done in bencher.passes]
    assert Counter(cases) == {"warm-up": 2, "short": 6, "long": 3, SETTLE: 10}
    assert set(cases[2::2]) == {SETTLE}
    assert all(done.round == 0 for done in bencher.passes if done.case == SETTLE)


def test_number_of_requests_matches_the_announced_one():
    bencher = bencher_of(Listening())
    run_protocol(bencher, QUICK)
    assert len(bencher.passes) == requests_for(QUICK, "llama.cpp") == 21
    assert requests_for(QUICK, "vLLM") == 11


def test_repeatedly_failing_server_stops_the_protocol(wording):
    system = Listening(fails=lambda now: ExchangeError("error", "out of memory") if now > 3 else None)
    bencher = bencher_of(system)
    wording(run_protocol(bencher, STANDARD))
    assert len(bencher.failures) <= 4


@pytest.mark.parametrize(
    ("context", "tokens", "fitting", "prompt"),
    [
        (None, 8000, 8000, 3580),
        (4096, 512, 512, 3580),
        (4096, 8000, 3968, 3580),
        (2048, 512, 512, 1532),
        (300, 512, 172, 54),
        (64, 512, 1, 0),
    ],
)
def test_prompt_and_tokens_fit_the_context(context, tokens, fitting, prompt):
    found = STANDARD._replace(tokens=tokens).within(context)
    assert (found.tokens, found.long_prompt) == (fitting, prompt)
