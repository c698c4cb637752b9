import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from doubles import Quiet

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.sweeps import Limits, users
from unslow.facts.bench import DECODE, FIRST, TOGETHER
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported_fact
from unslow.look.requests import Target
from unslow.look.system.live import LiveSystem

STEP_S = 0.004


class Handler(BaseHTTPRequestHandler):
    """Speaks as llama-server does; a slot for each that is answered, the others wait."""

    protocol_version = "HTTP/1.1"
    slots = threading.Semaphore(100)
    prompts: list[str]
    most = 1000

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append(body["prompt"])
        if threading.active_count() - self.idle > self.most:
            self._whole(503, b'{"error":{"message":"too many"}}')
            return
        with self.slots:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(body["n_predict"]):
                time.sleep(STEP_S)
                self._event({"content": "x", "stop": False})
            spent = body["n_predict"] * STEP_S * 1000
            timings = {"prompt_n": 9, "prompt_ms": 1.0, "predicted_n": body["n_predict"], "predicted_ms": spent}
            self._event({"content": "", "stop": True, "timings": timings})
            self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self._whole(200, b"{}")

    def _whole(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _event(self, said: object) -> None:
        data = f"data: {json.dumps(said)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def served(slots: int, failing: bool = False) -> Iterator[tuple[Bencher, list[str]]]:
    prompts: list[str] = []
    known = {"slots": threading.Semaphore(slots), "prompts": prompts, "most": 0 if failing else 1000, "idle": 0}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Known", (Handler,), known))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    runtime = Runtime().with_facts(slots=reported_fact(slots, "test")) if slots < 100 else Runtime()
    try:
        target = Target(f"http://127.0.0.1:{server.server_port}")
        yield Bencher(LiveSystem(), Subject(runtime=runtime), target, Quiet()), prompts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_users_beyond_the_slots_wait(wording):
    with served(slots=2) as (bencher, _):
        found = users.sweep(bencher, Limits(tokens=72, repeats=1))  # long against what a busy machine is late
    assert [point.at for point in found.points] == [1, 2, 4]
    at_once = [point.seen["answered_at_once"] for point in found.points]
    assert at_once[:2] == [1, 2]
    assert at_once[2] < 4  # two slots; on a busy machine the end of one answer is read after the next began
    assert found.points[2].seen["first_token_p95_s"] > 20 * STEP_S > found.points[1].seen["first_token_p50_s"] / 2
    wording(found.stopped_early)
    assert found.verdict != "scales"
    assert {TOGETHER, DECODE, FIRST} <= set(found.points[0].figures)


def test_concurrent_users_raise_combined_throughput():
    with served(slots=100) as (bencher, prompts):
        found = users.sweep(bencher, Limits(values=(1, 4), tokens=24, repeats=2))
    one, four = (point.figures[TOGETHER].median for point in found.points)
    assert found.verdict == "scales"
    assert four > 2 * one
    assert len(prompts) == len(set(prompts)) == 1 + 2 * 1 + 2 * 4
    assert len(bencher.passes) == len(prompts)
    assert [one.users for one in bencher.passes].count(4) == 8


def test_failures_stop_the_sweep_and_are_counted(wording):
    with served(slots=100, failing=True) as (bencher, prompts):
        found = users.sweep(bencher, Limits(values=(1, 2), tokens=8))
    wording(found.stopped_early)
    assert found.points[0].failures == 1
    assert "503" in found.points[0].note
    assert len(bencher.failures) == len(prompts) == 2


def test_interrupt_keeps_measured_points_and_restores_the_slot(monkeypatch: pytest.MonkeyPatch, wording):
    with served(slots=100) as (bencher, _):
        real = bencher.together

        def together(wanted: list) -> list:
            if len(wanted) == 2:
                raise KeyboardInterrupt
            return real(wanted)

        monkeypatch.setattr(bencher, "together", together)
        bencher.slot = 3
        found = users.sweep(bencher, Limits(tokens=8, repeats=1))
    assert bencher.interrupted
    assert bencher.slot == 3
    wording(found.stopped_early)
    assert found.points[0].figures[TOGETHER].count == 1


def test_slot_count_comes_from_the_runtime():
    with served(slots=7) as (bencher, _):
        assert users.slots_of(bencher) == 7
    with served(slots=100) as (bencher, _):
        assert users.slots_of(bencher) is None


def test_time_limit_stops_the_sweep(wording):
    with served(slots=100) as (bencher, _):
        found = users.sweep(bencher, Limits(tokens=8, repeats=3, seconds=0.01))
    wording(found.stopped_early, tells="0 s")
    assert len(bencher.passes) == 2


@pytest.mark.parametrize("value", [0, -1, 1e9, float("nan"), float("inf")])
def test_invalid_user_counts_are_refused(value: float):
    with pytest.raises(UserError, match="number of users"):
        users.users_of(Limits(values=(2, value)))


def test_user_counts_are_sorted_without_duplicates():
    assert users.users_of(Limits(values=(8, 1, 8, 2))) == [1, 2, 8]
    assert users.users_of(Limits())[:3] == [1, 2, 4]
