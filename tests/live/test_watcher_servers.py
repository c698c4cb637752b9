"""The watcher from the first look to the end of the server, on a scripted system."""

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
from unslow.facts.values import GIB, not_found, reported_fact
from unslow.live import watcher as module
from unslow.live.watcher import Watcher
from unslow.look.system import Answer, ExchangeError, LookError
from unslow.page import what_if

URL, OTHER = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
IDLE = {"id": 0, "is_processing": False}


def subject(url: str = URL, pid: int = 7, name: str = "llama.cpp") -> Subject:
    case = cpu_case()
    facts = {
        "url": reported_fact(url, "given"),
        "pid": reported_fact(pid, "/proc"),
        "name": reported_fact(name, "given"),
    }
    runtime = case.runtime.with_facts(embedded=False, **facts)
    return Subject(runtime=runtime, model=case.model)


def with_threads(runtime: Runtime, threads: int) -> Runtime:
    return runtime.with_facts(threads=reported_fact(threads, "command line: -t"))


def snapshot(*subjects: Subject) -> Snapshot:
    return Snapshot(unslow_version="1", machine=cpu_case().machine, subjects=subjects)


class World(FakeSystem):
    """Servers whose slots can be set."""

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
    """What the search for servers returns: the last of the list."""
    seen = [snapshot(subject())]

    def find(_system: object, _request: object) -> Snapshot:
        if not seen[-1].subjects and seen[-1].taken_at == "named":
            raise UserError("nothing listens there", "")
        return seen[-1]

    monkeypatch.setattr(module, "find_watched", find)
    return seen


def watching(world: World) -> Watcher:
    watched = Watcher(world, WatchRequest())
    watched.start()
    return watched


def look(watched: Watcher, world: World, seconds: float = 1.0) -> None:
    world.second += seconds
    watched.look()


@pytest.mark.usefixtures("found")
def test_request_is_tracked_without_sending_anything(world):
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
def test_diagnosis_follows_the_observed_speed(world):
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


def test_fix_is_written_as_a_flag_of_the_server(world, found):
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
def test_silent_and_loading_servers_are_distinguished(world, error, state, phase):
    watched = watching(world)
    world.slots(decoding(5))
    look(watched, world)
    world.fail(error)
    look(watched, world)
    tick = watched.tick()
    assert (tick.server.state, tick.phases.now, tick.speed.missing) == (state, phase, None)


def test_restarted_server_is_found_again(world, found, wording):
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


def test_another_server_replaces_a_dead_one(world, found, wording):
    found.append(snapshot(subject(), subject(OTHER, 8)))
    watched = watching(world)
    look(watched, world)
    del world.files["/proc/7/comm"]
    found.append(snapshot(subject(OTHER, 8)))
    look(watched, world)
    tick = watched.tick()
    assert (tick.server.url, len(tick.servers)) == (OTHER, 1)
    wording(tick.notes[0].split(" ", 1)[1])  # without the time


def test_choosing_cycles_through_the_servers(world, found):
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


def test_server_started_later_is_found(world, found):
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
def test_missing_speed_says_how_to_get_it_per_runtime(world, found, name, how):
    found.append(snapshot(subject(name=name)))
    world.fail(Answer(501, b"{}"))
    watched = watching(world)
    look(watched, world)
    tick = watched.tick()
    assert tick.speed.tokens_per_s is None
    assert how in tick.speed.missing.how_to_get
    assert tick.server.state == "answers"


def test_last_speed_comes_from_the_log_without_slots(world, found):
    one = subject()
    runtime = one.runtime.with_facts(log_path=reported_fact("/srv.log", "/proc/7"))
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


def test_memory_layout_without_a_log_is_calculated_once(world, found, monkeypatch):
    used = {"machine.gpus.0.vram_used_bytes": 12 * GIB, "machine.gpus.0.processes": [], "model.name": "Llama-3.1-8B"}
    case = with_facts(gpu_case(), {"runtime.memory.buffers": not_found("no log"), **used})
    facts = {"url": reported_fact(URL, "given"), "pid": reported_fact(7, "/proc")}
    one = Subject(runtime=case.runtime.with_facts(**facts), model=case.model)
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
def test_missing_queue_length_suggests_metrics(world):
    watched = watching(world)
    world.slots(decoding(5))
    look(watched, world)
    assert "--metrics" in watched.tick().notes[0]
