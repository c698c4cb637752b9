import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence
from unslow.look.bench.trials.single_requests import Asker, PromptLength, rate_of
from unslow.look.requests import Plan, Target
from unslow.look.system import Answer, Line, LookError

URL = "http://127.0.0.1:8080"
LONG = PromptLength("a long prompt", fewest=100, most=2000)


def answer(prompt=40, cached=0, generated=16) -> list[Line]:
    timings = {
        "prompt_n": prompt,
        "prompt_ms": 100.0,
        "predicted_n": generated,
        "predicted_ms": 150.0,
        "cache_n": cached,
    }
    last = {"content": "", "stop": True, "timings": timings}
    return [Line(0.1, 'data: {"content": "a"}'), Line(0.25, f"data: {json.dumps(last)}")]


def slots(*held: int, context=4096) -> Answer:
    known = [{"id": n, "n_ctx": context, "n_prompt_tokens": tokens} for n, tokens in enumerate(held)]
    return Answer(200, json.dumps(known).encode())


def asker(http=None, lines=None, runtime="llama.cpp", context=None, **plan) -> Asker:
    system = FakeSystem(
        http={f"GET {URL}/slots": http} if http else {}, streams={f"{URL}/completion": lines or answer()}
    )
    return Asker(system, Target(URL, runtime=runtime, context=context), Plan(**plan))


def test_a_shared_kv_cache_leaves_less_context_for_the_slot():
    shown = slots(1000, 500, 70)
    assert asker(shown, slot=2).room() == 4096 - 1500
    assert asker(shown, slot=2, slots=(1, 2)).room() == 4096 - 1000
    assert asker(shown, slot=2, shared=False).room() == 4096


def test_usable_context_is_the_smaller_of_plan_and_slot():
    assert asker(slots(0), context=8192).room() == 4096
    assert asker(slots(0), context=1024, slot=0).room() == 1024
    assert asker(context=1024).room() == 1024
    assert asker(runtime="vLLM", context=1024).room() == 1024
    assert asker().room() == 2048


@pytest.mark.parametrize(
    "shown", [Answer(200, b"[]"), Answer(200, b"3"), Answer(200, b'[{"n_ctx": "x"}]'), Answer(501, b"")]
)
def test_garbage_slots_leave_the_planned_context(shown):
    assert asker(shown, context=700).room() == 700


def test_prompt_length_is_limited_by_time_and_context():
    known = {"prefill_tokens_per_s": 100.0, "decode_tokens_per_s": 10.0}
    assert asker(slots(0), **known).prompt_in(5.0, LONG, 10) == 500
    assert asker(slots(0), **known).prompt_in(50.0, LONG, 10) == 2000
    assert asker(slots(0, context=512), **known).prompt_in(50.0, LONG, 10) == 476
    with pytest.raises(LookError, match="no room") as caught:
        asker(slots(0, context=64), **known).prompt_in(50.0, LONG, 10)
    assert caught.value.absence is Absence.NOT_FOUND
    with pytest.raises(LookError, match="too slow"):
        asker(slots(0), **known).prompt_in(0.5, LONG, 10)


def test_requests_that_would_take_too_long_are_refused():
    slow = asker(decode_tokens_per_s=1.0, prefill_tokens_per_s=10.0, seconds=10.0)
    slow.check_answers(1, 20)
    with pytest.raises(LookError, match="too slow"):
        slow.check_answers(2, 20)


def test_a_known_speed_skips_the_warm_up():
    known = asker(decode_tokens_per_s=100.0, prefill_tokens_per_s=1000.0)
    known.warm_up()
    assert known.system.sent == []
    assert known.tokens_in(1.0) == 100
    fresh = asker()
    fresh.warm_up()
    assert len(fresh.system.sent) == 1
    assert fresh.tokens_in(0.5) == 50


def test_a_long_prompt_is_halved_in_the_cache_before_leaving_a_slot():
    guest = asker(lines=answer(prompt=1, cached=400), slot=3, prefill_tokens_per_s=1000.0)
    guest.leave("word " * 2000, guest.ask("word", 1)._replace(prompt_tokens=2000))
    bodies = [body for _, body in guest.system.sent[1:]]
    assert len(bodies) == 1
    assert bodies[0]["cache_prompt"]
    assert bodies[0]["id_slot"] == 3
    assert 1200 < len(bodies[0]["prompt"].split()) < 1400


def test_a_cache_that_cannot_be_truncated_is_left_alone():
    guest = asker(lines=answer(prompt=1300, cached=0), slot=3, prefill_tokens_per_s=1000.0)
    guest.leave("word " * 2000, guest.ask("word", 1)._replace(prompt_tokens=2000))
    assert len(guest.system.sent) == 2


def test_a_slot_is_not_cleaned_up_without_time_left():
    guest = asker(slot=3, prefill_tokens_per_s=100.0, seconds=10.0)
    guest.leave("word " * 2000, guest.ask("word", 1)._replace(prompt_tokens=2000))
    assert len(guest.system.sent) == 1


def test_without_a_slot_nothing_is_cleaned_up():
    own = asker()
    own.leave("word " * 2000, own.ask("word", 1)._replace(prompt_tokens=2000))
    assert len(own.system.sent) == 1


def test_a_reply_that_ended_early_is_not_timed():
    guest = asker(lines=answer(generated=3))
    with pytest.raises(LookError, match="too early"):
        rate_of(guest.ask("word", 16))
