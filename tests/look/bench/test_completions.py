"""The measurement against a door that plays a server."""

import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import Known, Unknown
from unslow.look.bench.completions import COMPLETIONS, FEWEST_TOKENS, MOST_TOKENS, complete, decode_rate, measure
from unslow.look.bench.guest import Plan, Target
from unslow.look.system import LookError
from unslow.look.system.door import Line

URL = "http://127.0.0.1:8080"
STREAM = f"{URL}/completion"


def timings(**changes):
    return {"prompt_n": 40, "prompt_ms": 100.0, "predicted_n": 65, "predicted_ms": 1000.0, "cache_n": 0} | changes


def answer(**changes) -> list[Line]:
    last = {"content": "", "stop": True, "timings": timings(**changes)}
    return [Line(0.15, 'data: {"content": "a"}'), Line(0.15, ""), Line(1.2, f"data: {json.dumps(last)}")]


def run(stream, files=None, pid=None):
    system = FakeSystem(streams={STREAM: stream}, files=files or {}, folders={})
    return measure(system, Target(URL, "", pid), Plan(slot=3), lambda *_: None), system


def test_a_warm_up_and_three_completions_each_with_a_prompt_of_its_own():
    result, system = run(answer())
    bodies = [body for _, body in system.sent]
    assert len(bodies) == COMPLETIONS + 1
    assert len({b["prompt"].split()[0] for b in bodies}) == len(bodies)
    assert all(b["id_slot"] == 3 and b["ignore_eos"] and not b["cache_prompt"] for b in bodies)
    assert FEWEST_TOKENS <= bodies[1]["n_predict"] <= MOST_TOKENS
    assert len(result.completions.need()) == COMPLETIONS


def test_server_and_client_are_kept_apart():
    result, _ = run(answer())
    assert result.decode_tokens_per_s.need() == pytest.approx(64.0)
    assert result.client_decode_tokens_per_s.need() == pytest.approx(64 / 1.05)
    assert result.prefill_tokens_per_s.need() == pytest.approx(400.0)
    assert result.time_to_first_token_s.need() == pytest.approx(0.15)
    assert result.depth_tokens.need() == 72


def test_a_server_that_never_answers_leaves_a_reason():
    result, _ = run(LookError("did not answer in time"))
    assert isinstance(result.decode_tokens_per_s, Unknown)
    assert "in time" in result.decode_tokens_per_s.why


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [Line(0.1, "data: nonsense")],
        [Line(0.1, "data: [1]")],
        [Line(0.1, 'data: {"error": {"message": "out of slots"}}')],
        [Line(0.1, 'data: {"content": "a"}')],
        [Line(0.1, 'data: {"timings": 3}')],
        [Line(0.1, 'data: {"timings": {"prompt_n": 1, "prompt_ms": 1, "predicted_n": 0, "predicted_ms": 0}}')],
        [Line(0.1, "data: " + "[" * 100_000)],
    ],
    ids=["nothing", "no json", "no event", "an error", "no timings", "wrong timings", "no tokens", "deep"],
)
def test_garbage_leaves_a_reason_too(lines):
    result, _ = run(lines)
    assert isinstance(result.decode_tokens_per_s, Unknown)


def test_without_proc_the_speed_is_still_known():
    result, _ = run(answer(), pid=7)
    assert isinstance(result.decode_tokens_per_s, Known)
    assert isinstance(result.others_cpus, Unknown)
    assert isinstance(result.waiting_for_cpu_s_per_token, Unknown)


def completed(**changes):
    system = FakeSystem(streams={STREAM: answer(**changes)})
    return complete(system, Target(URL), Plan(), "hello", 2).completion


def test_n_tokens_take_n_minus_one_steps():
    assert decode_rate(completed(predicted_n=2, predicted_ms=500.0)) == pytest.approx(2.0)


def test_cached_tokens_are_told():
    assert completed(cache_n=10).cached_tokens == 10
