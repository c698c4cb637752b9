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
from unslow.facts.values import measured_fact
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
    model = Model(weights_bytes=measured_fact(weights_bytes, "the file"))
    return Bencher(system, Subject(model=model), Target(URL), Quiet())


def with_file(rows: Any) -> PacedServer:
    return PacedServer(files={"bench.json": json.dumps(rows)})


def names(parts: Parts | None) -> list[str]:
    assert parts
    return [part.name for part in parts.parts]


def said(one: Bencher) -> str:
    return "\n".join(one.progress.said)  # type: ignore[attr-defined]


def test_parts_of_a_llama_server_sum_to_the_client_time():
    parts = split_parts(bencher(with_file(LLAMA_BENCH)), "bench.json")
    assert parts
    found = {part.name: part.seconds * 1e3 for part in parts.parts}
    assert parts.seconds * 1e3 == pytest.approx(4.6)
    assert found == pytest.approx(
        {"device_step": 1e3 / 261, "sampling": 0.5, "streaming": 0.1, "delivery": 0, "unexplained": 4.0 - 1e3 / 261},
        abs=1e-3,
    )
    assert sum(found.values()) == pytest.approx(4.6)


def test_variants_are_requested_equally_often_and_rotate():
    one = bencher(PacedServer())
    split_parts(one, limits=Limits(tokens=32, repeats=6, seconds=1000))
    cases = [done.case for done in one.passes[1:]]
    assert cases[::3] == ["parts: usual", "parts: greedy", "parts: silent"] * 2
    assert {cases.count(case) for case in cases} == {6}


def test_part_requests_are_not_counted_as_protocol_rounds():
    one = bencher(PacedServer())
    split_parts(one)
    assert {done.round for done in one.passes} == {0}


def test_depth_is_the_mean_position_of_generated_tokens():
    rounds, depth = measure_rounds(bencher(PacedServer()), Limits(tokens=64, repeats=3, seconds=1000))
    assert depth == 18 + 31
    assert len(rounds) == 3


def test_slow_server_gets_fewer_tokens_and_stops_at_the_time_limit():
    one = bencher(PacedServer())
    rounds, _ = measure_rounds(one, Limits(tokens=128, repeats=9, seconds=1))
    assert len(rounds) == 3
    assert {done.asked_tokens for done in one.passes if isinstance(done, Pass)} == {16}


def test_llama_bench_file_of_another_model_gives_no_device_step(wording):
    one = bencher(with_file(LLAMA_BENCH), weights_bytes=9_000_000_000)
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    wording(said(one), tells=("8B", "Q4_K"))


@pytest.mark.parametrize("rows", [[{**LLAMA_BENCH[0], "n_prompt": 512}], [], "nothing"])
def test_llama_bench_file_without_decode_test_is_reported(rows: Any):
    one = bencher(with_file(rows))
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    assert "llama-bench" in said(one)


def test_missing_llama_bench_file_is_reported_and_other_parts_are_split():
    one = bencher(PacedServer())
    assert names(split_parts(one, "bench.json")) == ["step_and_loop", "sampling", "streaming", "delivery"]
    assert "cannot read bench.json" in said(one)


def test_differing_settings_are_reported(wording):
    one = bencher(with_file([{**LLAMA_BENCH[0], "n_threads": 8, "type_k": "q8_0"}]))
    runtime = Runtime().with_facts(threads=measured_fact(16, "its command"), kv_type_k=measured_fact("f16", "its log"))
    one.subject = msgspec.structs.replace(one.subject, runtime=runtime)
    split_parts(one, "bench.json")
    wording(said(one), tells=("16", "-ctk", "q8_0", "f16"))
    assert "-ctv" not in said(one)


def test_speculative_decoding_is_reported():
    one = bencher(PacedServer())
    one.subject = msgspec.structs.replace(
        one.subject, runtime=Runtime().with_facts(speculative=measured_fact("ngram", "its command"))
    )
    split_parts(one)
    assert "tokens are drafted" in said(one)


def test_llama_bench_test_at_another_depth_gives_no_device_step(wording):
    one = bencher(with_file([{**LLAMA_BENCH[0], "n_depth": 8192}]))
    assert names(split_parts(one, "bench.json"))[0] == "step_and_loop"
    wording(said(one))


def test_dead_server_gives_no_parts(wording):
    one = bencher(FakeSystem())
    assert split_parts(one) is None
    wording(said(one))


def test_interrupt_keeps_complete_rounds():
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
