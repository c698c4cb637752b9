"""Several runtimes on one machine: each is found once, and a failing one does not affect the others."""

import json
from types import SimpleNamespace

import pytest
from doubles import FakeSystem

from unslow.commands.diagnose import runtimes
from unslow.commands.diagnose.runtimes import LISTENERS, join_seen_and_heard, ports_of, read_at, read_runtimes
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Unknown, reported_fact
from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.processes import ProcessSigns
from unslow.look.runtimes import LoadedRuntimes, llama_cpp
from unslow.look.system import Answer, ExchangeError, FinishedCommand, LookError
from unslow.look.system.http import NOTHING_LISTENS
from unslow.look.system.live import LiveSystem

TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def listening(*ports: int) -> str:
    rows = (f"   0: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 99{port} 1 0 100 0 0 10 0\n" for port in ports)
    return TCP + "".join(rows)


def subject(name: str, url: str = "", path: str = "", **facts) -> Subject:
    known = {"name": name, **({"url": url} if url else {}), **facts}
    runtime = Runtime().with_facts(
        **{k: v if isinstance(v, Unknown) else reported_fact(v, "x") for k, v in known.items()}
    )
    return Subject(runtime=runtime, model=Model(path=reported_fact(path, "x")) if path else Model())


def looker(name: str, pids=(), at=None, rank: int = 5, ports=(), fails: Exception | None = None):
    def read(process, api_key):
        if fails:
            raise fails
        return (subject(name, f"http://127.0.0.1:{process.pid}"),)

    def read_url(system, url, api_key):
        if isinstance(at, Exception):
            raise at
        return (subject(name, url),) if at else None

    return SimpleNamespace(
        NAME=name,
        PORTS=ports,
        RANK=rank,
        PROCESSES=ProcessSigns(("",)),
        find=lambda processes: [p for p in processes if p.pid in pids],
        read=read,
        read_url=read_url,
        spell=lambda change, runtime: [],
    )


@pytest.fixture
def machine(monkeypatch):
    def make(*lookers, broken=None, ports=()):
        monkeypatch.setattr(runtimes, "lookers", lambda: tuple(sorted(lookers, key=lambda m: m.RANK)))
        monkeypatch.setattr(runtimes, "load_runtimes", lambda: LoadedRuntimes(tuple(lookers), broken or {}))
        return FakeSystem(folders={"/proc": ["7", "8", "9"]}, files={"/proc/net/tcp": listening(*ports)})

    return make


def seen(system: FakeSystem):
    subjects, outcomes = read_runtimes(system, "")
    errors = {outcome.name: outcome.error for outcome in outcomes if outcome.error}
    return [s.runtime.name.need() for s in subjects], errors


def test_several_runtimes_are_found_at_once(machine):
    assert seen(machine(looker("A", (7,)), looker("B", (8, 9)))) == (["A", "B", "B"], {})


def test_failing_reader_does_not_affect_the_others(machine):
    system = machine(
        looker("A", (7,), fails=LookError("denied")),
        looker("B", (8,)),
        looker("C", (9,), fails=KeyError("oops")),
        broken={"d": "SyntaxError: x"},
    )
    names, errors = seen(system)
    assert names == ["B"]
    assert errors == {"A": "process 7: denied", "C": "KeyError: 'oops'", "d": "SyntaxError: x"}


def test_unreadable_process_does_not_hide_the_next(machine):
    good = looker("A", (7, 8))
    good.read = lambda process, key: (_ for _ in ()).throw(LookError("no")) if process.pid == 7 else (subject("A"),)
    names, errors = seen(machine(good))
    assert (names, errors) == (["A"], {"A": "process 7: no"})


def test_open_port_without_a_visible_process_is_queried(machine):
    system = machine(looker("A", ports=(11434,), at=True), looker("B", ports=(8000,), at=True), ports=(11434, 22))
    assert seen(system)[0] == ["A"]


def test_port_of_a_known_process_is_not_queried_again(machine):
    system = machine(looker("A", (8,), ports=(8,), at=True), ports=(8,))
    assert seen(system)[0] == ["A"]


def test_readers_that_share_a_port_are_tried_by_rank(machine):
    system = machine(
        looker("Last", ports=(8080,), at=True, rank=9),
        looker("First", ports=(8080,), at=LookError("not mine"), rank=0),
        looker("Second", ports=(8080,), at=True, rank=1),
        ports=(8080,),
    )
    assert seen(system) == (["Second"], {})


def test_failing_port_reader_does_not_affect_processes(machine):
    names, errors = seen(machine(looker("A", (7,)), looker("B", ports=(80,), at=KeyError("x")), ports=(80,)))
    assert names == ["A"]
    assert LISTENERS in errors


def test_ports_of_a_subject_include_its_proxy():
    assert ports_of(subject("a", "http://127.0.0.1:5800", front="llama-swap at http://127.0.0.1:8080")) == {5800, 8080}
    assert ports_of(Subject()) == set()


def test_url_is_tried_by_rank(machine):
    system = machine(looker("B", rank=9, at=True), looker("A", rank=0, at=LookError("hm")), looker("C", rank=1))
    assert read_at(system, "http://h:1", "")[0].runtime.name.need() == "B"


def test_closed_port_is_the_reported_reason(machine):
    nobody = LookError("nothing listens there", Absence.NOT_FOUND)
    with pytest.raises(LookError, match="nothing listens"):
        read_at(machine(looker("A"), looker("B", at=nobody)), "http://h:1", "")


def test_live_system_reports_a_closed_port_with_the_known_words():
    with pytest.raises(LookError, match=NOTHING_LISTENS):
        LiveSystem().request("GET", "http://127.0.0.1:1/")


def test_server_that_never_answers_is_given_up(machine):
    slow = LookError("did not answer in time")
    system = machine(*(looker(f"{n}", rank=n, at=slow) for n in range(5)), looker("Last", rank=9, at=True))
    system.ticks = iter(range(0, 10_000, 100))  # each look at the clock is ten seconds later
    with pytest.raises(LookError, match="in time"):
        read_at(system, "http://h:1", "")


def test_unknown_server_error_prefers_a_missing_key(machine, wording):
    with pytest.raises(LookError) as caught:
        read_at(machine(looker("A"), looker("B")), "http://h:1", "")
    wording(caught.value.why)
    locked = LookError("wants a key", how_to_get="give it")
    with pytest.raises(LookError, match="wants a key"):
        read_at(machine(looker("A", at=LookError("404")), looker("B", at=locked), looker("C")), "http://h:1", "")


def test_container_process_and_its_published_port_are_one_subject():
    boxed = subject("llama.cpp", "http://127.0.0.1:80", "/m/a.gguf", pid=7, container="docker", gpu_layers_set=20)
    heard = subject("llama.cpp", "http://127.0.0.1:8080", "/models/a.gguf", busy_slots=0)
    other = subject("llama.cpp", "http://127.0.0.1:8081", "/models/b.gguf", busy_slots=0)
    one, rest = join_seen_and_heard([boxed], [heard, other])
    assert (
        one.runtime.process.url.need(),
        one.runtime.process.pid.need(),
        one.runtime.scheduling.busy_slots.need(),
    ) == ("http://127.0.0.1:8080", 7, 0)
    assert one.runtime.placement.gpu_layers_set.need() == 20
    assert rest == other


def test_llama_server_behind_an_open_port_is_read(monkeypatch):
    """A llama-server of a container: no process, only an open port."""
    monkeypatch.setattr(runtimes, "lookers", lambda: (llama_cpp,))
    url = "http://127.0.0.1:8080"
    props = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1, "model_path": "/m/a.gguf"}
    http = {
        f"GET {url}/health": Answer(200, b'{"status":"ok"}'),
        f"GET {url}/props": Answer(200, json.dumps(props).encode()),
    }
    files = {"/proc/net/tcp6": listening(8080).replace("0100007F", "0" * 32)}
    subjects, _ = read_runtimes(FakeSystem(http=http, files=files, folders={"/proc": ["1"]}), "")
    assert [s.runtime.process.url.need() for s in subjects] == [url]


def test_timeout_stops_further_readers(machine, wording):
    asked = []

    def waiting(system, url, api_key):
        asked.append(url)
        for _ in range(130):  # each look at the clock is a tenth of a second
            system.clock()
        raise LookError(f"{url}/props did not answer in time")

    lookers = [looker(name) for name in "ABC"]
    for each in lookers:
        each.read_url = waiting
    with pytest.raises(LookError) as caught:
        read_at(machine(*lookers), "http://h:1", "")
    wording(caught.value.why, tells="http://h:1")
    assert len(asked) == 1


def test_a_server_that_is_late_is_asked_by_all_readers(machine):
    def late(system, url, api_key):
        for _ in range(75):  # three questions of 2.5 s each
            system.clock()

    first, second = looker("A"), looker("B", at=True)
    first.read_url = late
    assert read_at(machine(first, second), "http://h:1", "")


def test_a_question_without_an_answer_stops_further_readers(machine):
    def silent(system, url, api_key):
        raise ExchangeError("silent", f"{url}/props did not answer in time")

    first, second = looker("A"), looker("B", at=True)
    first.read_url = silent
    with pytest.raises(LookError, match="in time"):
        read_at(machine(first, second), "http://h:1", "")


def test_silent_wait_counts_as_a_timeout(machine):
    def silent(system, url, api_key):
        for _ in range(130):
            system.clock()

    first, second = looker("A"), looker("B", at=True)
    first.read_url = silent
    with pytest.raises(LookError, match="in time"):
        read_at(machine(first, second), "http://h:1", "")


def test_server_is_found_by_its_port_without_proc():
    """As on a Mac or under Windows, where no process can be listed."""
    table = "  TCP    127.0.0.1:11434        0.0.0.0:0              LISTENING\n"
    http = {
        "GET http://127.0.0.1:11434/": Answer(200, b"Ollama is running"),
        "GET http://127.0.0.1:11434/api/ps": Answer(200, b'{"models": [{"name": "m:1", "size": 5, "size_vram": 5}]}'),
        "GET http://127.0.0.1:11434/api/version": Answer(200, b'{"version": "0.33.0"}'),
    }
    commands = {"netstat -an": FinishedCommand(0, table, "")}
    subjects, outcomes = read_runtimes(FakeSystem(http=http, commands=commands, asks={"sys.platform": "win32"}), "")
    assert [(s.runtime.name.need(), s.model.name.need()) for s in subjects] == [("Ollama", "m:1")]
    assert outcomes[0].error, "that no process was seen is a fact"


def test_error_names_the_server_not_the_queried_path(machine):
    lost = LookError("http://h:1/api/extra/version: No route to host")
    with pytest.raises(LookError, match=r"^http://h:1: No route to host$"):
        read_at(machine(looker("A", at=lost)), "http://h:1", "")


def test_real_engine_is_matched_to_its_process_by_its_port(tmp_path):
    """The engine is llama.cpp's server inside Python."""
    with start_engine(LiveSystem(), str(ModelCache(tmp_path).model("tiny"))) as engine:
        (found,) = read_at(LiveSystem(), engine.url, "")
    assert found.runtime.process.pid.need() == engine.pid
    assert found.runtime.compute.threads.need() > 0  # from its log
    assert isinstance(found.runtime.process.command, Unknown)  # these flags are not llama-server's
