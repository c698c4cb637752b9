import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from doubles import FakeSystem, Quiet

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.parts import measure_rounds, split_parts
from unslow.commands.bench.sweeps import Limits
from unslow.facts.bench import Pass
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import measured
from unslow.look.requests import Target
from unslow.look.system import Answer, Line, LookError
from unslow.think.stats.parts import Parts

URL = "http://127.0.0.1:8080"
STEP_MS, SAMPLE_MS, SEND_MS = 4.0, 0.5, 0.1
LLAMA_BENCH = [
    {"build_commit": "abc", "model_type": "llama 8B Q4_K", "model_size": 4_900_000_000, "n_prompt": 0, "n_gen": 128,
     "n_depth": 0, "avg_ts": 261.0, "avg_ns": 490421456, "samples_ns": [490421456, 490421456]},
]  # fmt: skip


class PacedServer(FakeSystem):
    """A llama-server whose every token takes exactly as long as the way it is asked for says."""

    def _ms(self, body: Mapping[str, Any]) -> float:
        return STEP_MS + (0 if body.get("samplers") == ["top_k"] else SAMPLE_MS) + (SEND_MS if body["stream"] else 0)

    def _timings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        count = body["n_predict"]
        return {"prompt_n": 18, "prompt_ms": 20.0, "predicted_n": count, "predicted_ms": self._ms(body) * (count - 1)}

    def request(self, method: str, url: str, body: Any = None, *_: Any, **__: Any) -> Answer:
        self.sent.append((f"{method} {url}", body))
        if not url.endswith("/completion"):
            raise LookError("not here")
        return Answer(200, json.dumps({"content": "x", "timings": self._timings(body)}).encode())

    def stream(self, url: str, body: Any, *_: Any, **__: Any) -> Iterator[Line]:
        self.sent.append((f"STREAM {url}", body))
        for number in range(body["n_predict"]):
            yield Line(0.02 + number * self._ms(body) / 1e3, 'data: {"content": "a", "stop": false}')
        yield Line(9.0, "data: " + json.dumps({"content": "", "stop": True, "timings": self._timings(body)}))


def bencher(system: FakeSystem, weights_bytes: int = 4_900_000_000) -> Bencher:
    model = Model(weights_bytes=measured(weights_bytes, "the file"))
    return Bencher(system, Subject(model=model), Target(URL), Quiet())


def with_file(rows: Any) -> PacedServer:
    return PacedServer(files={"bench.json": json.dumps(rows)})


def names(parts: Parts | None) -> list[str]:
    assert parts
    return [part.name for part in parts.parts]


def said(one: Bencher) -> str:
    return "\n".join(one.progress.said)  # type: ignore[attr-defined]


def test_the_parts_of_a_llama_server_sum_to_the_clients_time():
    parts = split_parts(bencher(with_file(LLAMA_BENCH)), "bench.json")
    assert parts
    found = {part.name: part.seconds * 1e3 for part in parts.parts}
    assert parts.seconds * 1e3 == pytest.approx(4.6)
    assert found == pytest.approx(
        {"device_step": 1e3 / 261, "sampling": 0.5, "streaming": 0.1, "delivery": 0, "unexplained": 4.0 - 1e3 / 261},
        abs=1e-3,
    )
    assert sum(found.values()) == pytest.approx(4.6)


def test_every_way_is_asked_as_often_and_begins_as_often():
    one = bencher(PacedServer())
    split_parts(one, limits=Limits(tokens=32, repeats=6, seconds=1000))
    cases = [done.case for done in one.passes[1:]]
    assert cases[::3] == ["parts: usual", "parts: greedy", "parts: silent"] * 2
    assert {cases.count(case) for case in cases} == {6}


def test_its_requests_are_no_repeats_of_the_protocol():
    one = bencher(PacedServer())
    split_parts(one)
    assert {done.round for done in one.passes} == {0}


def test_the_depth_is_that_of_the_tokens_after_the_first():
    rounds, depth = measure_rounds(bencher(PacedServer()), Limits(tokens=64, repeats=3, seconds=1000))
    assert depth == 18 + 31
    assert len(rounds) == 3


def test_a_slow_server_is_asked_for_fewer_tokens_and_stops_when_the_time_is_over():
    one = bencher(PacedServer())
    rounds, _ = measure_rounds(one, Limits(tokens=128, repeats=9, seconds=1))
    assert len(rounds) == 3
    assert {done.asked_tokens for done in one.passes if isinstance(done, Pass)} == {16}


def test_a_file_about_another_model_is_said_and_no_step(wording):
    one = bencher(with_file(LLAMA_BENCH), weights_bytes=9_000_000_000)
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    wording(said(one), tells=("8B", "Q4_K"))


@pytest.mark.parametrize("rows", [[{**LLAMA_BENCH[0], "n_prompt": 512}], [], "nothing"])
def test_a_file_without_a_test_that_generates_is_said(rows: Any):
    one = bencher(with_file(rows))
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    assert "llama-bench" in said(one)


def test_a_file_that_is_not_there_is_said_and_the_rest_is_split():
    one = bencher(PacedServer())
    assert names(split_parts(one, "bench.json")) == ["step_and_loop", "sampling", "streaming", "delivery"]
    assert "can't be read" in said(one)


def test_settings_that_differ_are_said(wording):
    one = bencher(with_file([{**LLAMA_BENCH[0], "n_threads": 8, "type_k": "q8_0"}]))
    runtime = Runtime(threads=measured(16, "its command"), kv_type_k=measured("f16", "its log"))
    one.subject = msgspec.structs.replace(one.subject, runtime=runtime)
    split_parts(one, "bench.json")
    wording(said(one), tells=("16", "-ctk", "q8_0", "f16"))
    assert "-ctv" not in said(one)


def test_drafting_is_said_because_it_makes_sampling_something_else():
    one = bencher(PacedServer())
    one.subject = msgspec.structs.replace(one.subject, runtime=Runtime(speculative=measured("ngram", "its command")))
    split_parts(one)
    assert "tokens are drafted" in said(one)


def test_a_test_at_another_depth_is_said_and_the_step_stays_with_the_loop(wording):
    one = bencher(with_file([{**LLAMA_BENCH[0], "n_depth": 8192}]))
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    wording(said(one))


def test_a_dead_server_has_no_parts_and_it_is_said(wording):
    one = bencher(FakeSystem())
    assert split_parts(one) is None
    wording(said(one))


def test_ctrl_c_keeps_the_rounds_that_are_whole():
    class Stopped(PacedServer):
        def stream(self, url: str, body: Any, *_: Any, **__: Any) -> Iterator[Line]:
            if len(self.sent) > 8:
                raise KeyboardInterrupt
            yield from super().stream(url, body)

    one = bencher(Stopped())
    parts = split_parts(one, limits=Limits(tokens=32, repeats=9, seconds=1000))
    assert parts
    assert parts.rounds == 2
    assert one.interrupted
