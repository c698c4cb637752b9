"""Looking again and again, with servers that answer from a script and a clock that is set by hand."""

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
from unslow.facts.values import not_found, reported
from unslow.fleet import self_diagnosis as module
from unslow.fleet.self_diagnosis import KEEP_S, STUCK_S, Looker, WatchedServer
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
    facts = {"url": reported(url, "given"), "pid": reported(pid, "/proc")}
    return Subject(runtime=msgspec.structs.replace(case.runtime, embedded=False, **facts), model=case.model)


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
def test_a_speed_is_seen_and_kept_for_a_while(looker, world):
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


def test_an_average_since_the_start_is_no_speed_of_now(looker, world, found):
    counted = reported(74.0, "/metrics: since its start")
    facts = {"decode_tokens_per_s": counted, "prefill_tokens_per_s": counted}
    one = subject()
    found.append(snapshot(msgspec.structs.replace(one, runtime=msgspec.structs.replace(one.runtime, **facts))))
    looker.attempt()
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.report.subjects[0].measured == {}, "nobody asks it anything"
    assert looker.standing.report.subjects[0].verdict == "cannot_tell"
    answers(looker, world)
    looker.attempt()
    assert looker.standing.report.subjects[0].measured["decode_tokens_per_s"] == pytest.approx(3.0)
    assert "prefill_tokens_per_s" not in looker.standing.report.subjects[0].measured


def test_a_server_too_busy_to_tell_what_it_is_stays_the_same(looker, world, found):
    one = subject()
    version = reported("b9999", "/props")
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
    other = msgspec.structs.replace(one.model, name=reported("another", "/v1/models"))
    found.append(snapshot(msgspec.structs.replace(one, model=other)))
    world.second += 60
    looker.attempt()
    assert len(stopped) == 1, "another model is another subject"
    assert looker.standing.report.subjects[0].version == "", "of which only what it tells is known"


@pytest.mark.usefixtures("found")
def test_a_server_that_hangs_is_said_to(looker, world):
    looker.attempt()
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.state.answers == (("llama.cpp:8080", True),)
    for path in ("slots", "metrics"):
        world.http[f"GET {URL}/{path}"] = ExchangeError("silent", "did not answer in time")
    looker._posts[0].watched.ask()
    looker.attempt()
    assert looker.standing.state.answers == (("llama.cpp:8080", False),)


def test_a_look_that_fails_keeps_what_was_known_for_a_while(looker, world, found, capsys):
    looker.attempt()
    found.append(UserError("nothing listens there", "is it up?"))
    for failures in (1, 2):
        world.second += 60
        looker.attempt()
        report, state = looker.standing
        assert (state.success, state.failures, len(report.subjects)) == (False, failures, 1)
    assert capsys.readouterr().err.count("nothing listens there") == 1, "said once"
    world.second += looker.stale_s
    looker.attempt()
    assert looker.standing.report is None
    assert looker.standing.state.at_s is not None, "when it was last known stays"
    found.append(snapshot(subject()))
    looker.attempt()
    assert looker.standing.state.success


def test_a_server_that_is_gone_answers_no_more_though_it_is_still_told_of(looker, world, found):
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


def test_a_bug_is_a_look_that_failed_and_told_as_what_it_is(looker, found, capsys):
    found.append(ZeroDivisionError("oh"))
    looker.attempt()
    assert not looker.standing.state.success
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [LookError("\x1b]0;PWN\x07\x1b[2Jbad status"), ValueError("\x1b]0;PWN\x07")])
def test_what_a_server_says_does_not_drive_the_terminal(looker, found, capsys, error):
    found.append(error)
    looker.attempt()
    told = capsys.readouterr().err
    assert "PWN" in told
    assert not set("\x1b\x07") & set(told)


def test_servers_come_and_go(looker, world, found):
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


def test_too_many_servers_are_counted_and_always_the_same_are_watched(looker, found):
    many = [subject(f"http://127.0.0.1:{8000 + n}", 100 + n) for n in range(20)]
    found.append(snapshot(*reversed(many)))
    looker.attempt()
    report, state = looker.standing
    assert (len(report.subjects), state.left_out) == (16, 4)
    assert report.subjects[0].url == "http://127.0.0.1:8000"


def test_nothing_runs_here(looker, found):
    found.append(snapshot())
    looker.attempt()
    report, state = looker.standing
    assert (state.success, report.subjects) == (True, ())


def test_a_search_is_rare_where_it_costs_much(looker, world, found, monkeypatch):
    spent = iter([0.0, 3.0])
    monkeypatch.setattr(module.time, "process_time", lambda: next(spent))
    looker.attempt()
    found.append(ZeroDivisionError("not yet"))
    world.second += 200
    looker.attempt()
    assert looker.standing.state.success, "three seconds of a core are one percent of five minutes"


def test_a_look_that_hangs_is_not_well(looker, world):
    assert not looker.is_well(), "not begun"
    looker._thread = type("Alive", (), {"is_alive": lambda _self: True})()
    assert looker.is_well()
    looker._looking_since = world.second
    world.second += STUCK_S + 1
    assert not looker.is_well()


@pytest.mark.usefixtures("found")
def test_a_thread_that_breaks_is_a_look_that_failed_and_is_replaced(looker, world, capsys):
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


def test_what_was_measured_lies_below_what_is_seen(world, found, monkeypatch):
    looker = Looker(world, ExporterSettings(measure_every_s=3600.0))
    run = Run(decode_tokens_per_s=reported(2.5, "measured"))
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
def test_why_a_server_was_not_measured_is_told(world, monkeypatch, capsys):
    class Late:
        def __init__(self, *_given: object, **_more: object) -> None:
            pass

        def measured(self, _seen: Snapshot, subjects: list[Subject]) -> Any:
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


def test_without_leave_nothing_is_measured(world):
    looker = Looker(world, ExporterSettings(watch=WatchRequest()))
    assert not looker._measurements.is_due(1e9)
