"""Watching from the first look to the end of the server, with a door that answers from a script."""

import json
from typing import Any

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts
from doubles import FakeSystem

from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import GIB, not_found, reported
from unslow.live import watcher as module
from unslow.live.watcher import Watching
from unslow.look.system import Answer, ExchangeError, LookError
from unslow.page import what_if

URL, OTHER = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
IDLE = {"id": 0, "is_processing": False}


def subject(url: str = URL, pid: int = 7, name: str = "llama.cpp") -> Subject:
    case = cpu_case()
    facts = {"url": reported(url, "given"), "pid": reported(pid, "/proc"), "name": reported(name, "given")}
    runtime = msgspec.structs.replace(case.runtime, embedded=False, **facts)
    return Subject(runtime=runtime, model=case.model)


def with_threads(runtime: Runtime, threads: int) -> Runtime:
    return msgspec.structs.replace(runtime, threads=reported(threads, "command line: -t"))


def snapshot(*subjects: Subject) -> Snapshot:
    return Snapshot(unslow_version="1", machine=cpu_case().machine, subjects=subjects)


class World(FakeSystem):
    """Servers whose slots can be set; every second is a look."""

    def __init__(self) -> None:
        super().__init__(files={"/proc/7/comm": "llama-server", "/proc/8/comm": "llama-server"})
        self.second = 0.0
        self.slots(IDLE)
        self.slots(IDLE, url=OTHER)

    def clock(self) -> float:
        return self.second

    def slots(self, *slots: dict[str, Any], url: str = URL) -> None:
        self.http[f"GET {url}/slots"] = Answer(200, json.dumps(slots).encode())

    def fail(self, error: LookError | Answer) -> None:
        self.http[f"GET {URL}/slots"] = error
        self.http[f"GET {URL}/metrics"] = error


def decoding(tokens: int) -> dict[str, Any]:
    return {"id": 0, "is_processing": True, "id_task": 3, "next_token": [{"n_decoded": tokens}]}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """What looking for servers gives: the last of the list."""
    seen = [snapshot(subject())]

    def find(_system: object, _request: object) -> Snapshot:
        if not seen[-1].subjects and seen[-1].taken_at == "named":
            raise UserError("nothing listens there", "")
        return seen[-1]

    monkeypatch.setattr(module, "find_watched", find)
    return seen


def watching(world: World) -> Watching:
    watched = Watching(world, WatchRequest())
    watched.start()
    return watched


def look(watched: Watching, world: World, seconds: float = 1.0) -> None:
    world.second += seconds
    watched.look()


@pytest.mark.usefixtures("found")
def test_a_request_from_its_first_token_to_its_end(world):
    watched = watching(world)
    look(watched, world)
    assert watched.tick().phases.now == "idle"
    for tokens in (5, 25, 45):
        world.slots(decoding(tokens))
        look(watched, world)
    tick = watched.tick()
    assert (tick.speed.tokens_per_s, tick.phases.now, tick.requests.running) == (20, "decode", 1)
    assert tick.speed.expected is not None
    assert tick.speed.ceiling > tick.speed.expected.low > 0
    assert tick.phases.minute["decode"] == 1.0
    assert not [method for method, _ in world.sent if not method.startswith("GET ")], "it only looks"


@pytest.mark.usefixtures("found")
def test_the_judgement_follows_what_is_seen(world):
    watched = watching(world)
    look(watched, world)
    before = watched.tick()
    assert before.suspicion.kind == "cannot_tell"
    assert not before.wall.measured
    for second in range(12):
        world.slots(decoding(2 + second))
        look(watched, world)
    after = watched.tick()
    assert after.wall.measured, "a token takes a second now"
    assert sum(part.seconds for part in after.wall.parts) == pytest.approx(1.0)
    assert after.suspicion.kind != "cannot_tell"


def test_a_fix_is_spelled_for_the_server(world, found):
    one = subject()
    found.append(snapshot(msgspec.structs.replace(one, runtime=with_threads(one.runtime, 8))))
    watched = watching(world)
    for tokens in range(1, 13):
        world.slots(decoding(tokens))
        look(watched, world)
    seen = watched.tick().suspicion
    assert seen.cause == "threads_exceed_cores"
    assert seen.command == "-t 2"


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("error", "state", "phase"),
    [(ExchangeError("silent", "did not answer in time"), "silent", "decode"), (Answer(503, b"{}"), "loading", "load")],
)
def test_a_server_that_does_not_answer_now(world, error, state, phase):
    watched = watching(world)
    world.slots(decoding(5))
    look(watched, world)
    world.fail(error)
    look(watched, world)
    tick = watched.tick()
    assert (tick.server.state, tick.phases.now, tick.speed.missing) == (state, phase, None)


def test_a_server_that_dies_and_comes_back(world, found, wording):
    watched = watching(world)
    look(watched, world)
    del world.files["/proc/7/comm"]
    found.append(Snapshot(unslow_version="1", taken_at="named"))
    look(watched, world)
    tick = watched.tick()
    assert tick.server.state == "gone"
    wording(tick.notes[0].split(" ", 1)[1])  # without the time
    found.append(snapshot(subject(pid=8)))
    look(watched, world)
    assert watched.tick().server.state == "gone", "it is not looked for all the time"
    look(watched, world, 10)
    look(watched, world)
    tick = watched.tick()
    assert (tick.server.state, tick.server.pid) == ("answers", 8)
    wording(tick.notes[0].split(" ", 1)[1])


def test_another_server_is_shown_in_place_of_one_that_died(world, found, wording):
    found.append(snapshot(subject(), subject(OTHER, 8)))
    watched = watching(world)
    look(watched, world)
    del world.files["/proc/7/comm"]
    found.append(snapshot(subject(OTHER, 8)))
    look(watched, world)
    tick = watched.tick()
    assert (tick.server.url, len(tick.servers)) == (OTHER, 1)
    wording(tick.notes[0].split(" ", 1)[1])  # without the time


def test_several_servers_are_chosen_from(world, found):
    found.append(snapshot(subject(), subject(OTHER, 8)))
    watched = watching(world)
    look(watched, world)
    watched.choose(1)
    look(watched, world)
    tick = watched.tick()
    assert (tick.chosen, tick.server.url, len(tick.servers)) == (1, OTHER, 2)
    watched.choose(1)
    look(watched, world)
    assert watched.tick().server.url == URL, "after the last comes the first"


def test_nothing_runs_and_then_something_does(world, found):
    found.append(snapshot())
    watched = watching(world)
    watched.choose(1)
    look(watched, world)
    assert not watched.is_found
    assert watched.tick().server.state == "none"
    found.append(snapshot(subject()))
    look(watched, world, 61)
    look(watched, world)
    assert watched.tick().server.state == "answers"


@pytest.mark.parametrize(
    ("name", "how"),
    [("llama.cpp", "without --no-slots"), ("SGLang", "--enable-metrics"), ("LM Studio", "unslow bench")],
)
def test_what_a_server_hides_and_how_to_get_it(world, found, name, how):
    found.append(snapshot(subject(name=name)))
    world.fail(Answer(501, b"{}"))
    watched = watching(world)
    look(watched, world)
    tick = watched.tick()
    assert tick.speed.tokens_per_s is None
    assert how in tick.speed.missing.how_to_get
    assert tick.server.state == "answers"


def test_the_last_answer_by_the_log_of_a_server_that_hides_its_slots(world, found):
    one = subject()
    runtime = msgspec.structs.replace(one.runtime, log_path=reported("/srv.log", "/proc/7"))
    found.append(snapshot(msgspec.structs.replace(one, runtime=runtime)))
    world.files["/srv.log"] = (
        "srv start\nslot print_timing: id  0 | task 0 | \n"
        "prompt eval time =      64.00 ms /    16 tokens (    4.00 ms per token,   250.00 tokens per second)\n"
        "       eval time =    1000.00 ms /    21 tokens (   50.00 ms per token,    20.00 tokens per second)\n"
        "      total time =    1064.00 ms /    37 tokens\n"
    )
    world.fail(Answer(501, b"{}"))
    watched = watching(world)
    look(watched, world)
    assert watched.tick().speed.last_tokens_per_s == pytest.approx(20, rel=0.06)


def test_a_server_on_a_gpu_without_a_log_has_its_model_laid_out_once(world, found, monkeypatch):
    used = {"machine.gpus.0.vram_used_bytes": 12 * GIB, "machine.gpus.0.processes": [], "model.name": "Llama-3.1-8B"}
    case = with_facts(gpu_case(), {"runtime.buffers": not_found("no log"), **used})
    facts = {"url": reported(URL, "given"), "pid": reported(7, "/proc")}
    one = Subject(runtime=msgspec.structs.replace(case.runtime, **facts), model=case.model)
    found.append(Snapshot(unslow_version="1", machine=case.machine, subjects=(one,)))
    watched = watching(world)
    look(watched, world)
    bar = watched.tick().memory[0]
    assert {"weights", "kv"} <= {part.kind for part in bar.parts}
    assert sum(part.bytes for part in bar.parts) == bar.capacity_bytes
    monkeypatch.setattr(what_if, "memory_of", None)  # whoever asks again fails
    look(watched, world, 10)
    assert watched.tick().memory[0] == bar


@pytest.mark.usefixtures("found")
def test_those_who_wait_are_not_told_without_metrics(world):
    watched = watching(world)
    world.slots(decoding(5))
    look(watched, world)
    assert "--metrics" in watched.tick().notes[0]
