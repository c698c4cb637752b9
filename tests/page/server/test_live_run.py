"""A run that is watched from another thread: real requests to a server that replays a recorded one."""

import time

import pytest
from lab.replay import serve
from tests.bench_cases import answered, bench, failed

from unslow.commands._diagnosis_options import Looking
from unslow.commands.bench import BenchRequest
from unslow.commands.diagnose import look
from unslow.commands.diagnose.request import Limits
from unslow.page.server.live_run import MOST_EVENTS, Event, Events, LiveRun, live_words

BRIEF = Limits(8.0, 0.3, 0.5)
LONG_S = 30.0


@pytest.fixture(autouse=True)
def _own_history(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))


def followed(run: LiveRun) -> list[Event]:
    """All events, asked for as a page would."""
    told: list[Event] = []
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        over = run.is_over
        told += run.events(told[-1].number if told else 0)
        if over:
            break
        time.sleep(0.05)
    return told


def test_a_diagnosis_tells_what_it_does_and_ends_with_a_view(monkeypatch):
    monkeypatch.setattr(look, "limits_of", lambda _: BRIEF)
    with serve("llama_cpp", tokens_per_s=200.0) as url:
        run = LiveRun("diagnose", Looking(target=url)).start()
        told = followed(run)
    assert run.state == "done", run.error or run.bug
    assert [event.number for event in told] == sorted({event.number for event in told})
    kinds = {event.kind for event in told}
    assert kinds >= {"progress", "said", "answer", "timeline", "done"}
    answers = [event.answer for event in told if event.answer]
    assert any(150 < (answer.decode_tokens_per_s or 0) < 250 for answer in answers)
    assert told[-1].kind == "done"
    assert told[-1].text
    assert run.seen is not None
    (subject,) = run.seen.view.subjects
    assert subject.timeline is not None
    assert {span.phase for span in subject.timeline.spans} >= {"decode"}


def test_a_benchmark_that_is_stopped_keeps_what_it_has():
    with serve("llama_cpp", tokens_per_s=60.0) as url:
        run = LiveRun("bench", BenchRequest(target=url, quick=True, tokens=64)).start()
        end = time.monotonic() + LONG_S
        while time.monotonic() < end and not any(event.answer for event in run.events()):
            time.sleep(0.02)
        run.stop()
        assert run.wait(5.0)
    assert run.state == "stopped"
    assert run.result is not None
    assert run.result.bench.interrupted
    assert run.result.bench.passes
    assert not run.result.bench.failures
    last = run.events()[-1]
    assert (last.kind, last.stopped) == ("done", True)


@pytest.mark.real
def test_users_at_once_are_stopped_in_the_middle_of_their_answers():
    with serve("llama_cpp", tokens_per_s=20.0) as url:
        asked = BenchRequest(target=url, sweep=("users=4",), evict=True)
        run = LiveRun("bench", asked).start()
        time.sleep(6.0)
        run.stop()
        assert run.wait(5.0)
    assert (run.state, run.error, run.bug) == ("stopped", None, None)
    assert run.result is not None
    assert run.result.bench.failures == ()


def test_what_the_user_asked_wrongly_is_told():
    run = LiveRun("bench", BenchRequest(target="nothing-that-runs"))
    assert run.state == "waiting"
    run.start()
    assert run.wait(LONG_S)
    assert run.state == "failed"
    last = run.events()[-1]
    assert last.kind == "failed"
    assert "nothing-that-runs" in last.text
    assert last.hint


def test_a_run_takes_the_request_of_its_kind():
    with pytest.raises(TypeError):
        LiveRun("bench", Looking())
    with pytest.raises(TypeError):
        LiveRun("diagnose", BenchRequest())


def test_events_are_bounded_and_only_the_newest_progress_is_kept():
    events = Events()
    for number in range(2000):
        events.tell("said", text=str(number))
        events.tell("progress", text=str(number), share=0.5)
    kept = events.after(0)
    assert len(kept) == MOST_EVENTS
    assert sum(event.kind == "progress" for event in kept) == 1
    assert kept[-1].number == 4000
    assert events.after(3999) == [kept[-1]]


def test_a_server_that_fails_meanwhile_is_told_in_the_last_words(wording):
    assert "failed" not in live_words(bench())
    some = live_words(bench(passes=(answered(),), failures=(failed(), failed(2))))
    wording(some, tells=("2 of 3", "300 s"))
    none = live_words(bench(figures={}, passes=(), failures=(failed(),)))
    wording(none, tells=("1 of 1", "300 s"))
