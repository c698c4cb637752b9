from itertools import pairwise
from statistics import median
from typing import Any

from deep_server import DeepServer
from doubles import Quiet

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.sweeps import Limits, turns
from unslow.commands.bench.sweeps.turns import Sizes
from unslow.facts.bench import FIRST, PREFILL, Sweep
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import measured_fact
from unslow.look.requests import Target


def swept(system: DeepServer, context: int = 8192, slot: int | None = None, **limits: Any) -> tuple[Sweep, Bencher]:
    runtime = Runtime().with_facts(context_per_slot=measured_fact(context, "/props"))
    bencher = Bencher(system, Subject(runtime=runtime), Target("http://127.0.0.1:1"), Quiet())
    bencher.slot = slot
    return turns.sweep(bencher, Limits(**limits)), bencher


def test_prompt_cache_computes_only_new_tokens():
    found, bencher = swept(DeepServer())
    assert (found.verdict, found.stopped_early) == ("cached", "")
    assert [p.label for p in found.points] == [f"turn {n}" for n in range(1, 6)]
    assert all(p.seen["computed_tokens"] <= p.seen["new_tokens"] for p in found.points)
    assert found.points[0].seen["computed_tokens"] > 700
    assert found.points[4].figures[FIRST].median < 0.3 * found.points[0].figures[FIRST].median
    assert PREFILL in found.points[1].figures
    assert bencher.passes[-1].cached_tokens > 1100


def test_each_turn_extends_the_previous_prompt_and_answer():
    system = DeepServer()
    swept(system)
    talk = system.prompts[1:]
    assert all(later.startswith(before) for before, later in pairwise(talk))
    assert "word0 word1" in talk[1]


def test_server_without_prompt_cache_gives_reprocessed_with_its_cost():
    found, _ = swept(DeepServer(keeps=False))
    assert found.verdict == "reprocessed"
    known = [p.seen["prompt_tokens"] for p in found.points[:-1]]
    assert f"{median(known) / 1000:.2f} s per turn" in found.because  # a thousandth of a second for each token
    assert "prompt_reprocessed" in found.because


def test_requests_use_the_given_slot_and_the_prompt_cache():
    system = DeepServer()
    bodies: list[Any] = []
    stream = system.stream
    system.stream = lambda url, body, *a, **k: (bodies.append(body), stream(url, body, *a, **k))[1]  # type: ignore[method-assign]
    swept(system, slot=3)
    assert {body["id_slot"] for body in bodies} == {3}
    assert all(body["cache_prompt"] for body in bodies[1:])


def test_small_context_shortens_the_conversation():
    system = DeepServer(context=1024)
    found, _ = swept(system, context=1024)
    assert (found.verdict, found.stopped_early) == ("cached", "")
    assert all(not p.failures for p in found.points)


def test_context_without_room_gives_cannot_tell():
    found, _ = swept(DeepServer(), context=100)
    assert found.verdict == "cannot_tell"
    assert "too small" in found.stopped_early


def test_failed_turn_stops_the_sweep_and_is_counted():
    found, bencher = swept(DeepServer(context=1300))
    assert found.points[-1].failures == 1
    assert "exceeds the available context" in found.stopped_early
    assert len(bencher.failures) == 1


def test_interrupted_conversation_keeps_its_turns(wording):
    found, bencher = swept(DeepServer(interrupt_at_s=1003.5))
    assert bencher.interrupted
    wording(found.stopped_early)
    assert found.points


def test_time_limit_stops_the_sweep():
    found, _ = swept(DeepServer(keeps=False, prompt_token_s=0.01), seconds=20.0)
    assert len(found.points) == 3
    assert found.verdict == "reprocessed"
    assert "were spent" in found.stopped_early


def test_turn_count_can_be_given():
    found, _ = swept(DeepServer(), values=(8.0,))
    assert len(found.points) == 8


def test_turn_sizes_fit_every_context():
    for context in (0, 64, 512, 2048, 8192, 131072):
        for count in (2, 5, 64):
            sizes = Sizes.within(context, count, 128)
            assert sizes.first >= 0
            assert sizes.first + (count - 1) * (sizes.more + sizes.answer) + sizes.answer <= max(context, count * 48)
