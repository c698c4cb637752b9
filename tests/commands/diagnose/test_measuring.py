"""The measuring loop: what it measures, when it stops, and its replay."""

import os
import signal
import threading
from itertools import chain, repeat

import msgspec
import pytest
from doubles import FakeSystem, Quiet
from lab.replay import serve

from unslow.commands._formats import Looking
from unslow.commands.diagnose import look
from unslow.commands.diagnose.look import diagnose_target, stoppable
from unslow.commands.diagnose.request import QUICK, USUAL, Course, Limits, Step, limits_of
from unslow.commands.diagnose.runtimes import subjects_at_url
from unslow.commands.diagnose.target import read_stored
from unslow.commands.diagnose.visit import Measuring, merge_runs, notes_on
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Known, Unknown, failed_fact, measured_fact, reported_fact
from unslow.look.system import Answer, LookError
from unslow.look.system.live import ClosingSystem
from unslow.look.system.recorded import INDEX

SEEN = Snapshot(unslow_version="test")
BRIEF = Limits(30.0, 0.2, 0.1)


class Remembering(Quiet):
    """Progress that also remembers each step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def step(self, text: str, share: float) -> None:
        assert 0 <= share <= 1
        self.steps.append(text)


def measured_at(url: str, limits: Limits = BRIEF, progress: Quiet | None = None, **how):
    door = ClosingSystem()
    measuring = Measuring(door, Looking(evict=True), progress or Quiet(), limits, door=door, **how)
    with stoppable(door):
        return measuring.measure(SEEN, subjects_at_url(door, url, ""))


def interrupt(number: int = signal.SIGINT) -> None:
    """A signal, a moment from now."""
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()


class Interrupting(Quiet):
    """Somebody who stops it once they read a word."""

    def __init__(self, word: str, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.word, self.number = word, number

    def step(self, text: str, share: float) -> None:
        if self.word in text:
            interrupt(self.number)


def test_progress_says_what_is_measured_why_and_time_left():
    progress = Remembering()
    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        found = measured_at(url, progress=progress)
    assert found.course.steps[0] == Step(0, "speed")
    assert isinstance(found.subjects[0].run.decode_tokens_per_s, Known)
    assert any("s left at most" in step and "to measure decode speed" in step for step in progress.steps)
    assert "sending prompts of up to" in progress.said[0]


def test_only_the_requested_measurement_is_made():
    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        found = measured_at(url, BRIEF._replace(only=("speed",)))
    assert found.course.steps == (Step(0, "speed"),)


def test_every_server_is_measured_once_before_any_twice():
    door = ClosingSystem()
    with serve("llama_cpp", tokens_per_s=4000.0) as one, serve("vllm", tokens_per_s=4000.0) as two:
        subjects = [*subjects_at_url(door, one, ""), *subjects_at_url(door, two, "")[:1]]
        progress = Remembering()
        limits = BRIEF._replace(only=("speed", "routes"))
        found = Measuring(door, Looking(evict=True), progress, limits, door=door).measure(SEEN, subjects)
    assert {step.subject for step in found.course.steps[:2]} == {0, 1}
    assert {step.name for step in found.course.steps[:2]} == {"speed"}
    assert any(step.partition(": ")[2].startswith(one) for step in progress.steps), "which server is said too"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_measuring_and_keeps_results(number):
    before = signal.getsignal(number)
    with serve("llama_cpp", tokens_per_s=40.0) as url:
        found = measured_at(url, USUAL, Interrupting("measuring, 1", number))
    assert found.course.ended == "stopped"
    assert isinstance(found.subjects[0].run.decode_tokens_per_s, Known), "the warm-up had come by then"
    assert "stopped after" in found.notes[0][0]
    assert signal.getsignal(number) is before


def test_stop_before_any_result_is_not_a_server_failure():
    with serve("llama_cpp", tokens_per_s=2.0) as url:
        found = measured_at(url, USUAL, Interrupting("warming up"))
    speed = found.subjects[0].run.decode_tokens_per_s
    assert isinstance(speed, Unknown)
    assert "stopped" in speed.why
    assert speed.absence == "not_found"


def test_second_interrupt_raises_keyboard_interrupt():
    class Slow(Quiet):
        def say(self, text: str) -> None:
            threading.Event().wait(1.0)

    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        door = ClosingSystem()
        subjects = subjects_at_url(door, url, "")
        measuring = Measuring(door, Looking(evict=True), Slow(), USUAL, door=door)
        door._stops = 1
        interrupt()
        with stoppable(door), pytest.raises(KeyboardInterrupt):
            measuring.measure(SEEN, subjects)


def test_answer_cut_short_by_the_time_limit_still_gives_a_speed():
    with serve("llama_cpp", tokens_per_s=3.0) as url:
        found = measured_at(url, Limits(4.0, 0.2, 0.1))
    speed = found.subjects[0].run.decode_tokens_per_s
    assert speed.value == pytest.approx(3.0, rel=0.2)
    assert "cut short" in speed.source
    assert "sending typical requests" not in " ".join(found.notes[0])


def test_server_too_slow_for_the_time_limit_suggests_thorough():
    with serve("llama_cpp", tokens_per_s=0.5) as url:
        found = measured_at(url, Limits(4.0, 0.2, 0.1))
    speed = found.subjects[0].run.decode_tokens_per_s
    assert found.course.ended == "late"
    assert isinstance(speed, Unknown)
    assert "--thorough" in speed.how_to_get
    assert "lack of time" in found.notes[0][0]


def test_recorded_course_is_replayed():
    course = Course((Step(0, "routes"), Step(9, "speed"), Step(0, "no such trial")), "enough", 3.0)
    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        door = ClosingSystem()
        measuring = Measuring(door, Looking(evict=True), Quiet(), recorded=course)
        found = measuring.measure(SEEN, subjects_at_url(door, url, ""))
    run = found.subjects[0].run
    assert isinstance(run.routes, Known)
    assert not isinstance(run.decode_tokens_per_s, Known)
    assert found.course == course


def test_server_that_becomes_busy_is_not_measured_further():
    url = "http://127.0.0.1:8080"
    slots = chain([[{"id": 0}]], repeat([{"id": 0, "is_processing": True, "id_task": 5}]))

    class Filling(FakeSystem):
        def request(self, method, url, body=None, headers=None, timeout_s=0):
            if url.endswith("/slots"):
                return Answer(200, msgspec.json.encode(next(slots)))
            raise LookError("not there")

    facts = {"url": url, "state": "loaded", "busy_slots": 0}
    subject = Subject(
        runtime=Runtime().with_facts(**{name: reported_fact(value, "test") for name, value in facts.items()})
    )
    door, progress = Filling(), Remembering()
    Measuring(door, Looking(), progress).measure(SEEN, [subject])
    assert not [path for path, _ in door.sent if path.startswith("STREAM")]
    assert any("observing only from now on: it is busy" in step for step in progress.steps)


def test_joined_run_replaces_only_the_facts_of_its_trial():
    before = Run(
        load_s=measured_fact(3.0, "log"),
        decode_tokens_per_s=measured_fact(9.0, "log"),
        queue_s=measured_fact(0.1, "log"),
    )
    run = merge_runs(
        before, Run(decode_tokens_per_s=failed_fact("it broke"), queue_s=Unknown("x")), ("run.decode_tokens_per_s",)
    )
    assert isinstance(run.decode_tokens_per_s, Unknown)
    assert (run.load_s, run.queue_s) == (before.load_s, before.queue_s)


def test_recorded_diagnosis_replays_to_the_same_report(tmp_path, monkeypatch):
    monkeypatch.setattr(look, "limits_of", lambda _: BRIEF)
    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        live = diagnose_target(Looking(target=url, evict=True, goal=12.0, record=str(tmp_path / "rec")), Quiet()).report
    again = diagnose_target(Looking(target=str(tmp_path / "rec")), Quiet()).report
    assert msgspec.to_builtins(again.subjects) == msgspec.to_builtins(live.subjects)
    assert again.subjects[0].measured["decode_tokens_per_s"] > 0
    assert isinstance(read_stored(str(tmp_path / "rec")).subjects[0].run.completions, Known)
    assert (tmp_path / "rec" / INDEX).stat().st_size < 1_000_000


def test_recording_of_something_else_is_a_user_error(tmp_path):
    (tmp_path / INDEX).write_text('{"question":"ask diagnosis","answer":{"course":3}}\n')
    with pytest.raises(UserError, match="does not match"):
        diagnose_target(Looking(target=str(tmp_path)), Quiet())


def test_replayed_recording_cannot_be_recorded_again(tmp_path):
    (tmp_path / INDEX).write_text("")
    with pytest.raises(UserError, match="--record"):
        diagnose_target(Looking(target=str(tmp_path), record=str(tmp_path / "again")), Quiet())


def test_limits_are_interpolated_by_seconds():
    assert limits_of(Looking(seconds=8.0)) == QUICK._replace(seconds=8.0)
    assert limits_of(Looking(seconds=60.0)) == USUAL
    assert limits_of(Looking(seconds=120.0)).patience == 1.0
    assert limits_of(Looking(seconds=600.0)).patience > 1.0


def test_only_a_course_that_ended_early_has_a_note(wording):
    assert notes_on(Course((), "enough", 9.0), []) == ()
    wording(notes_on(Course((), "stopped", 9.0), []), tells="9 s")
