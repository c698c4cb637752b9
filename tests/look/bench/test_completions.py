"""Timed completions against a fake server."""

import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import Known, Unknown
from unslow.look.bench.completions import COMPLETIONS, FEWEST_TOKENS, MOST_TOKENS, measure
from unslow.look.bench.timing import complete, decode_rate
from unslow.look.requests import Plan, Target
from unslow.look.system import Answer, Line, LookError

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


def test_speed_trial_sends_a_warm_up_and_three_distinct_prompts_on_one_slot():
    result, system = run(answer())
    bodies = [body for path, body in system.sent if path.startswith("STREAM")]
    assert len(bodies) == COMPLETIONS + 1
    assert len({b["prompt"].split()[0] for b in bodies}) == len(bodies)
    assert all(b["id_slot"] == 3 and b["ignore_eos"] and not b["cache_prompt"] for b in bodies)
    assert FEWEST_TOKENS <= bodies[1]["n_predict"] <= MOST_TOKENS
    assert len(result.completions.need()) == COMPLETIONS


def test_server_and_client_decode_speeds_are_reported_separately():
    result, _ = run(answer())
    assert result.decode_tokens_per_s.need() == pytest.approx(64.0)
    assert result.client_decode_tokens_per_s.need() == pytest.approx(64 / 1.05)
    assert result.prefill_tokens_per_s.need() == pytest.approx(400.0)
    assert result.time_to_first_token_s.need() == pytest.approx(0.15)
    assert result.depth_tokens.need() == 72


def test_a_timeout_makes_decode_speed_unknown_with_the_reason():
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
def test_garbage_from_the_stream_makes_decode_speed_unknown(lines):
    result, _ = run(lines)
    assert isinstance(result.decode_tokens_per_s, Unknown)


class Breaking(FakeSystem):
    """A server that breaks off these answers, by their number."""

    def breaking(self, *numbers):
        self.numbers, self.asked = numbers, 0
        return self

    def stream(self, *args, **kwargs):
        self.asked += 1
        lines = list(super().stream(*args, **kwargs))
        return iter([Line(0.1, 'data: {"content": "a"}')] if self.asked in self.numbers else lines)


@pytest.mark.parametrize(("numbers", "asked"), [((1,), 5), ((3,), 5), ((2, 3, 4), 7)])
def test_an_answer_that_breaks_off_is_replaced_by_another(numbers, asked):
    system = Breaking(streams={STREAM: answer()}).breaking(*numbers)
    result = measure(system, Target(URL), Plan(slot=3), lambda *_: None)
    assert (len(result.completions.need()), system.asked) == (COMPLETIONS, asked)
    assert len({body["prompt"].split()[0] for path, body in system.sent if path.startswith("STREAM")}) == asked


def test_a_server_that_breaks_off_every_answer_is_asked_a_few_times():
    system = Breaking(streams={STREAM: answer()}).breaking(*range(2, 99))
    result = measure(system, Target(URL), Plan(slot=3), lambda *_: None)
    assert "broke off" in result.decode_tokens_per_s.why
    assert system.asked == 5


def test_decode_speed_is_known_without_proc():
    result, _ = run(answer(), pid=7)
    assert isinstance(result.decode_tokens_per_s, Known)
    assert isinstance(result.others_cpus, Unknown)
    assert isinstance(result.waiting_for_cpu_s_per_token, Unknown)


def completed(**changes):
    system = FakeSystem(streams={STREAM: answer(**changes)})
    return complete(system, Target(URL), Plan(), "hello", 2).completion


def test_decode_rate_divides_by_tokens_minus_one():
    assert decode_rate(completed(predicted_n=2, predicted_ms=500.0)) == pytest.approx(2.0)


def test_cached_prompt_tokens_are_read_from_timings():
    assert completed(cache_n=10).cached_tokens == 10


def test_drafted_and_accepted_tokens_come_from_the_server():
    result, _ = run(answer(draft_n=80, draft_n_accepted=4))
    assert [(c.drafted_tokens, c.accepted_tokens) for c in result.completions.need()] == [(80, 4)] * COMPLETIONS


class Visited(FakeSystem):
    """A server on which the slots of others change from look to look as given, and then stay."""

    def look_in_turn(self, *tasks):
        self.turns = list(tasks)
        return self

    def ask(self, name, question):
        if name != "slots of others":
            return super().ask(name, question)
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]


def visited(*tasks):
    system = Visited(streams={STREAM: answer()}).look_in_turn(*tasks)
    return measure(system, Target(URL), Plan(slot=3), lambda *_: None), system


def test_a_completion_that_shared_the_server_is_repeated():
    quiet, came = {"0": "7"}, {"0": "8"}
    result, system = visited(quiet, came)
    asked = [path for path, _ in system.sent if path.startswith("STREAM")]
    assert len(result.completions.need()) == COMPLETIONS
    assert len(asked) == 1 + COMPLETIONS + 1


def test_a_server_that_is_always_busy_gives_no_decode_speed():
    result, _ = visited({"0": "7 at work"})
    assert isinstance(result.decode_tokens_per_s, Unknown)
    assert "other requests" in result.decode_tokens_per_s.why
    assert result.decode_tokens_per_s.absence == "not_found"
    assert isinstance(result.completions, Unknown)


@pytest.mark.parametrize(
    ("template", "thinking"), [("{{ content }}", 0), ("{% if enable_thinking %}<think>{% endif %}", None), (None, None)]
)
def test_a_template_without_a_thinking_switch_means_zero_thinking_tokens(template, thinking):
    props = {f"GET {URL}/props": Answer(200, json.dumps({"chat_template": template}).encode())}
    system = FakeSystem(streams={STREAM: answer()}, http=props)
    result = measure(system, Target(URL), Plan(slot=3), lambda *_: None)
    assert result.thinking_tokens.value_or(None) == thinking
    if thinking is None:
        assert "chat" in result.thinking_tokens.how_to_get


def test_a_grammar_error_past_its_end_retries_without_ignore_eos():
    class Bound(FakeSystem):
        def stream(self, url, body, headers=None, timeout_s=0, silence_s=0):
            self.sent.append((url, body))
            yield Line(0.1, 'data: {"content": "}"}')
            if body["ignore_eos"]:
                yield Line(0.2, 'data: {"error": {"message": "Unexpected empty grammar stack"}}')
            yield from answer()

    system = Bound()
    timed = complete(system, Target(URL), Plan(slot=3), "a prompt", 32)
    assert timed.completion.generated_tokens == 65
    assert [body["ignore_eos"] for _, body in system.sent] == [True, False]
