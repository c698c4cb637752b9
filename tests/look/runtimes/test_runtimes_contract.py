"""The contract of every runtime module."""

import contextlib
import inspect

import pytest
from doubles import FakeSystem
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look import runtimes
from unslow.look.processes import Process, read_processes
from unslow.look.runtimes import OFFERED, Looker, load_runtimes, looker_of, lookers, names
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:1"
NOBODY = {f"/proc/{pid}/comm": name for pid, name in ((1, "systemd"), (7, "bash"), (8, "python3"), (9, ""))}
OTHER_SERVERS = [
    Answer(404, b"not found"),
    Answer(200, b"<html>hello</html>", "text/html"),
    Answer(200, b"{}"),
    Answer(200, b"[]"),
    Answer(200, b"null"),
    Answer(200, b"[" * 50_000),
    Answer(200, b"\xff\xfe"),
    Answer(500, b"boom"),
]


def test_no_runtime_module_is_broken():
    assert load_runtimes().broken == {}


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_every_runtime_offers_the_contract(looker):
    assert all(hasattr(looker, part) for part in OFFERED)
    assert isinstance(looker.NAME, str)
    assert 0 <= looker.RANK <= 9
    assert all(isinstance(port, int) for port in looker.PORTS)
    for name in ("find", "read", "read_url"):
        wanted = list(inspect.signature(getattr(Looker, name)).parameters)[1:]
        assert list(inspect.signature(getattr(looker, name)).parameters)[: len(wanted)] == wanted, name


def test_runtime_names_are_unique_and_can_be_looked_up():
    assert len({looker.NAME for looker in lookers()}) == len(lookers()) == len(names())
    assert all(looker_of(looker.NAME) is looker for looker in lookers())
    assert looker_of("embedded llama.cpp").NAME == "llama.cpp"
    assert looker_of("") is None


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_no_runtime_claims_a_foreign_process(looker):
    system = FakeSystem(files=dict(NOBODY), folders={"/proc": ["1", "7", "8", "9"]})
    assert looker.find(read_processes(system)) == []
    assert looker.find(()) == []


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
@pytest.mark.parametrize("answer", OTHER_SERVERS, ids=lambda answer: f"{answer.status} {answer.body[:8]!r}")
def test_no_runtime_claims_a_foreign_server_or_sends_it_requests(looker, answer):
    class Everywhere(FakeSystem):
        def request(self, method, url, body=None, headers=None, timeout_s=0):
            self.sent.append((f"{method} {url}", body))
            return answer

    system = Everywhere()
    try:
        found = looker.read_url(system, URL, "")
    except LookError:
        found = None  # it may say why it can't tell
    assert not found
    assert not [sent for sent, _ in system.sent if not sent.startswith("GET") and "/api/show" not in sent]


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_an_unreachable_url_is_claimed_by_no_runtime(looker):
    try:
        found = looker.read_url(FakeSystem(), URL, "")
    except LookError:
        found = None
    assert found is None


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
@pytest.mark.parametrize("value", [None, 4, 0.5, "q8_0", True, False])
def test_every_knob_is_spelled_without_a_crash(looker, value):
    for runtime in (
        Runtime(),
        Runtime().with_facts(name=reported_fact(looker.NAME, "x"), command=reported_fact(["x"], "x")),
    ):
        for knob in Knob:
            assert all(isinstance(line, str) and line for line in one_change(looker, knob.to(value), runtime)), knob


def test_a_broken_runtime_module_loses_only_itself(monkeypatch):
    monkeypatch.setattr(runtimes, "names", lambda: ["llama_cpp", "no_such_module", "__init__"])
    found = load_runtimes.__wrapped__()
    assert [looker.NAME for looker in found.lookers] == ["llama.cpp"]
    assert "ModuleNotFoundError" in found.broken["no_such_module"]
    assert "lacks NAME" in found.broken["__init__"]


def test_a_gone_process_does_not_crash_any_runtime():
    gone = Process(FakeSystem(), 99, "gone")
    for looker in lookers():
        with contextlib.suppress(LookError):
            assert isinstance(looker.read(gone, ""), tuple)
