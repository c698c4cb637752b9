"""Repeated diagnosis with scripted servers and a manual clock."""

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cases import cpu_case
from doubles import FakeSystem

from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import not_found, reported_fact
from unslow.fleet import self_diagnosis as module
from unslow.fleet.self_diagnosis import KEEP_S, STALE_LOOKS, STALE_S, STUCK_S, Looker, WatchedServer
from unslow.fleet.settings import ExporterSettings
from unslow.look.system import Answer, ExchangeError, LookError

URL, OTHER = "http://127.0.0.1:8080", "http://127.0.0.1:8081"


class World(FakeSystem):
    """Servers whose slots can be set, and a clock."""

    second = 0.0

    def clock(self) -> float:
        return self.second

    def slots(self, *slots: dict[str, Any], url: str = URL) -> None:
        self.http[f"GET {url}/slots"] = Answer(200, json.dumps(slots or [{"id": 0, "is_processing": False}]).encode())


def decoding(tokens: int) -> dict[str, Any]:
    return {"id": 0, "is_processing": True, "id_task": 3, "next_token": [{"n_decoded": tokens}]}


def subject(url: str = URL, pid: int = 7) -> Subject:
    case = cpu_case()
    facts = {"url": reported_fact(url, "given"), "pid": reported_fact(pid, "/proc")}
    return Subject(runtime=case.runtime.with_facts(embedded=False, **facts), model=case.model)


def snapshot(*subjects: Subject) -> Snapshot:
    return Snapshot(unslow_version="1", machine=cpu_case().machine, subjects=subjects)


@pytest.fixture
def world() -> World:
    world = World(files={"/proc/7/comm": "llama-server", "/proc/8/comm": "llama-server"})
    world.slots()
    world.slots(url=OTHER)
    return world


stopped: list[WatchedServer] = []


def stop(post: WatchedServer) -> None:
    stopped.append(post)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a search gives: the last of the list, or its error."""
    seen: list[Any] = [snapshot(subject())]

    def find(_system: object, _request: object) -> Snapshot:
        if isinstance(seen[-1], Exception):
            raise seen[-1]
        return seen[-1]

    monkeypatch.setattr(module, "find_watched", find)
    monkeypatch.setattr(WatchedServer, "start", lambda _post: None)  # asked by hand
    monkeypatch.setattr(WatchedServer, "stop", stop)
    stopped.clear()
    return seen


@pytest.fixture
def looker(world) -> Looker:
    return Looker(world, ExporterSettings())


def answers(looker: Looker, world: World, seconds: int = 12, speed: int = 3) -> None:
    """One request that is answered alone meanwhile."""
    for second in range(seconds):
        world.slots(decoding(1 + speed * second))
        world.second += 1.0
        for post in looker._posts:
            post.watched.ask()


@pytest.mark.usefixtures("found")
def test_observed_speed_is_kept_for_a_while(looker, world):
    looker.attempt()
    assert looker.standing.report.subjects[0].measured == {}
    answers(looker, world)
    looker.attempt()
    report, state = looker.standing
    assert report.subjects[0].measured["decode_tokens_per_s"] == pytest.approx(3.0)
    assert report.subjects[0].verdict == "normal"
    ((key, seen_s),) = state.seen_s
    assert key == "llama.cpp:8080"
    world.slots()
    world.second += KEEP_S - 1
    looker.attempt()
    assert "decode_tokens_per_s" in looker.standing.report.subjects[0].measured
    assert looker.standing.state.seen_s[0][1] == pytest.approx(seen_s - KEEP_S + 1, abs=1), "and is as old as it is"
    world.second += 2
    looker.attempt()
    assert looker.standing.report.subjects[0].measured == {}


def test_average_since_start_is_not_a_current_speed(looker, world, found):
    counted = reported_fact(74.0, "/metrics: since its start")
    facts = {"decode_tokens_per_s": counted, "prefill_tokens_per_s": counted}
    one = subject()
    found.append(snapshot(msgspec.structs.replace(one, runtime=one.runtime.with_facts(**facts))))
    looker.attempt()
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.report.subjects[0].measured == {}, "nobody asks it anything"
    assert looker.standing.report.subjects[0].verdict == "cannot_tell"
    answers(looker, world)
    looker.attempt()
    assert looker.standing.report.subjects[0].measured["decode_tokens_per_s"] == pytest.approx(3.0)
    assert "prefill_tokens_per_s" not in looker.standing.report.subjects[0].measured


def test_busy_server_keeps_its_identity(looker, world, found):
    one = subject()
    version = reported_fact("b9999", "/props")
    named = msgspec.structs.replace(one, runtime=msgspec.structs.replace(one.runtime, version=version))
    mute = msgspec.structs.replace(one, model=Model())
    shown = []
    for seen in (named, mute, named):
        found.append(snapshot(seen))
        world.second += 60
        looker.attempt()
        report = looker.standing.report.subjects[0]
        shown.append((report.version, report.model, report.quant, report.expected))
    assert shown[0][0] == "b9999"
    assert shown == [shown[0]] * 3
    assert stopped == [], "and what was seen of its work is not lost"
    other = msgspec.structs.replace(one.model, name=reported_fact("another", "/v1/models"))
    found.append(snapshot(msgspec.structs.replace(one, model=other)))
    world.second += 60
    looker.attempt()
    assert len(stopped) == 1, "another model is another subject"
    assert looker.standing.report.subjects[0].version == "", "of which only what it tells is known"


@pytest.mark.usefixtures("found")
def test_hanging_server_does_not_answer(looker, world):
    looker.attempt()
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.state.answers == (("llama.cpp:8080", True),)
    for path in ("slots", "metrics"):
        world.http[f"GET {URL}/{path}"] = ExchangeError("silent", "did not answer in time")
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.state.answers == (("llama.cpp:8080", False),)


def test_failed_look_keeps_earlier_facts_for_a_while(looker, world, found, capsys):
    looker.attempt()
    found.append(UserError("nothing listens there", "is it up?"))
    for failures in (1, 2):
        world.second += 60
        looker.attempt()
        report, state = looker.standing
        assert (state.success, state.failures, len(report.subjects)) == (False, failures, 1)
    assert capsys.readouterr().err.count("nothing listens there") == 1, "said once"
    world.second += max(STALE_S, STALE_LOOKS * 60.0)
    looker.attempt()
    assert looker.standing.report is None
    assert looker.standing.state.at_s is not None, "when it was last known stays"
    found.append(snapshot(subject()))
    looker.attempt()
    assert looker.standing.state.success


def test_gone_server_is_listed_as_not_answering(looker, world, found):
    looker.attempt()
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.state.answers == (("llama.cpp:8080", True),)
    found.append(UserError("nothing listens there", "is it up?"))
    for path in ("slots", "metrics"):
        world.http[f"GET {URL}/{path}"] = ExchangeError("refused", "nothing listens there")
    looker._posts[0].watched.ask()
    world.second += 60
    looker.attempt()
    report, state = looker.standing
    assert (len(report.subjects), state.success, state.answers) == (1, False, (("llama.cpp:8080", False),))


def test_exception_counts_as_a_failed_look_and_is_logged(looker, found, capsys):
    found.append(ZeroDivisionError("oh"))
    looker.attempt()
    assert not looker.standing.state.success
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [LookError("\x1b]0;PWN\x07\x1b[2Jbad status"), ValueError("\x1b]0;PWN\x07")])
def test_server_text_is_logged_without_control_characters(looker, found, capsys, error):
    found.append(error)
    looker.attempt()
    told = capsys.readouterr().err
    assert "PWN" in told
    assert not set("\x1b\x07") & set(told)


def test_started_and_stopped_servers_are_followed(looker, world, found):
    def look_at(*subjects: Subject) -> None:
        found.append(snapshot(*subjects))
        world.second += 60
        looker.attempt()

    look_at(subject())
    (first,) = looker._posts
    look_at(subject(), subject(OTHER, 8))
    assert looker._posts[0] is first, "it is watched on"
    assert [one.url for one in looker.standing.report.subjects] == [URL, OTHER]
    look_at(subject(OTHER, 8))
    assert stopped == [first]
    look_at(subject(OTHER, 9))
    assert len(stopped) == 2, "another process at the same place is another server"


def test_excess_servers_are_counted_and_the_selection_is_stable(looker, found):
    many = [subject(f"http://127.0.0.1:{8000 + n}", 100 + n) for n in range(20)]
    found.append(snapshot(*reversed(many)))
    looker.attempt()
    report, state = looker.standing
    assert (len(report.subjects), state.left_out) == (16, 4)
    assert report.subjects[0].url == "http://127.0.0.1:8000"


def test_machine_without_servers_has_no_subjects(looker, found):
    found.append(snapshot())
    looker.attempt()
    report, state = looker.standing
    assert (state.success, report.subjects) == (True, ())


def test_expensive_search_runs_rarely(looker, world, found, monkeypatch):
    spent = iter([0.0, 3.0])
    monkeypatch.setattr(module.time, "process_time", lambda: next(spent))
    looker.attempt()
    found.append(ZeroDivisionError("not yet"))
    world.second += 200
    looker.attempt()
    assert looker.standing.state.success, "three seconds of a core are one percent of five minutes"


def test_hanging_look_is_unhealthy(looker, world):
    assert not looker.is_well(), "not begun"
    looker._thread = type("Alive", (), {"is_alive": lambda _self: True})()
    assert looker.is_well()
    looker._looking_since = world.second
    world.second += STUCK_S + 1
    assert not looker.is_well()


@pytest.mark.usefixtures("found")
def test_crashed_watch_thread_is_replaced_and_counted_as_failure(looker, world, capsys):
    looker.attempt()
    (broken,) = looker._posts
    broken.failure = ZeroDivisionError("in the thread")
    looker._find_at = 1.0
    looker.attempt()
    assert not looker.standing.state.success
    assert "in the thread" in capsys.readouterr().err
    world.second += 60
    looker.attempt()
    assert looker.standing.state.success
    assert stopped == [broken]


def test_observed_speed_takes_precedence_over_measured(world, found, monkeypatch):
    looker = Looker(world, ExporterSettings(measure_every_s=3600.0))
    run = Run(decode_tokens_per_s=reported_fact(2.5, "measured"))
    asked = []

    def measure(seen: Snapshot, now_s: float) -> set[Any]:
        asked.append(now_s)
        looker._measurements._due_at = now_s + 3600
        looker._measurements._runs = {module.place_of(one): run for one in seen.subjects}
        return set(looker._measurements._runs)

    monkeypatch.setattr(looker._measurements, "measure", measure)
    looker.attempt()
    assert looker.standing.report.subjects[0].measured["decode_tokens_per_s"] == pytest.approx(2.5)
    world.second += 60
    looker.attempt()
    assert asked == [0.0], "only when it is time"
    answers(looker, world)
    looker.attempt()
    assert looker.standing.report.subjects[0].measured["decode_tokens_per_s"] == pytest.approx(3.0)
    assert found


@pytest.mark.usefixtures("found")
def test_reason_for_no_measurement_is_logged(world, monkeypatch, capsys):
    class Late:
        def __init__(self, *_given: object, **_more: object) -> None:
            pass

        def measure(self, _seen: Snapshot, subjects: list[Subject]) -> Any:
            run = Run(decode_tokens_per_s=not_found("no answer was whole within the 10 s that there were"))
            return SimpleNamespace(subjects=[msgspec.structs.replace(one, run=run) for one in subjects])

    monkeypatch.setattr("unslow.fleet.self_diagnosis.Measuring", Late)
    looker = Looker(world, ExporterSettings(measure_every_s=3600.0))
    for _ in range(2):
        looker.attempt()
        assert looker.standing.state.success, "it is no look that failed"
        world.second += 60
    told = f"unslow exporter: not measured: {URL}: no answer was whole within the 10 s that there were\n"
    assert capsys.readouterr().err == told
    assert looker.standing.state.seen_s == ()


def test_nothing_is_measured_without_measure_every(world):
    looker = Looker(world, ExporterSettings(watch=WatchRequest()))
    assert not looker._measurements.is_due(1e9)
