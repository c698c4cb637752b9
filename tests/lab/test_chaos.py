import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from lab.chaos.account import Asked, compared, ledger, right_kinds
from lab.chaos.deeds import DEEDS, drawn
from lab.chaos.proxy import Chaos, Seen
from lab.endurance import planned

from unslow.facts.bench import Failure
from unslow.look.bench.timing import ask
from unslow.look.requests import AskError, Question, Reply, Target
from unslow.look.system.live import LiveSystem

TOKENS = 12
SILENCE_S = 1.5
"""Far longer than the proxy or its server are ever late on a busy machine."""


class Handler(BaseHTTPRequestHandler):
    """A server that answers at once."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        tokens = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["n_predict"]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        timings = {"prompt_n": 3, "prompt_ms": 1.0, "predicted_n": tokens, "predicted_ms": 5.0}
        events = [{"content": "x", "stop": False}] * tokens + [{"content": "", "stop": True, "timings": timings}]
        for said in events:
            data = f"data: {json.dumps(said)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def chaos() -> Iterator[Chaos]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    proxy = Chaos(server.server_port, seed=1, late_s=(0.1, 0.2))
    proxy.open()
    yield proxy
    proxy.close()
    server.shutdown()
    thread.join()
    server.server_close()


def asked(chaos: Chaos) -> Reply | AskError:
    target = Target(f"http://127.0.0.1:{chaos.port}")
    try:
        return ask(LiveSystem(), target, Question("Explain.", TOKENS, silence_s=SILENCE_S, deadline_s=20.0))
    except AskError as error:
        return error


@pytest.mark.parametrize("deed", DEEDS)
def test_every_proxy_fault_is_counted_as_its_kind(chaos: Chaos, deed: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lab.chaos.proxy.drawn", lambda _dice: deed)
    heard = asked(chaos)
    [row] = chaos.seen
    kind = heard.kind if isinstance(heard, AskError) else "answered"
    assert row.deed == deed
    assert kind in DEEDS[deed].kinds
    if isinstance(heard, Reply):
        assert (heard.generated_tokens, len(heard.arrivals_s)) == (row.tokens, row.pieces) == (TOKENS, TOKENS)
    elif DEEDS[deed].exact:
        assert heard.pieces == row.pieces


def test_a_closed_port_refuses(chaos: Chaos):
    chaos.close()
    heard = asked(chaos)
    assert isinstance(heard, AskError)
    assert heard.kind == "refused"
    chaos.open()
    assert not isinstance(asked(chaos), AskError) or chaos.seen


def test_other_requests_are_forwarded(chaos: Chaos):
    connection = http.client.HTTPConnection("127.0.0.1", chaos.port, timeout=5)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"{}")
    connection.close()
    assert chaos.seen == []


def test_a_dead_server_is_a_bad_gateway(chaos: Chaos, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lab.chaos.proxy.drawn", lambda _dice: "pass")
    chaos.upstream_port = 1
    heard = asked(chaos)
    assert isinstance(heard, AskError)
    assert heard.kind == "error"
    assert chaos.seen[0].ended == "down"


def test_faults_are_drawn_by_weight():
    dice = random.Random(1)
    counts = Counter(drawn(dice) for _ in range(2000))
    assert set(counts) == set(DEEDS)
    assert 0.5 < counts["pass"] / 2000 < 0.62


ROWS = [Seen(1, 10.05, "pass", 12, 12, "whole"), Seen(2, 20.05, "close", 4, None, "done")]
LINES = [Asked(10.0, "answered", 12, 12), Asked(20.0, "broke_off", 4, None)]


def test_matching_accounts_hold():
    account = compared(LINES, ROWS, [], 8.0)
    assert account.holds
    assert (account.asked, account.answered, account.failed, account.matched) == (2, 1, 1, 2)
    assert account.tokens_counted == account.tokens_forwarded == 12


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (LINES[:1], "1 requests that reached the proxy, which saw 2"),
        ([*LINES, LINES[1]], "3 requests"),
        ([LINES[0], LINES[1]._replace(kind="stalled")], "counted as stalled"),
        ([LINES[0]._replace(tokens=11), LINES[1]], "11 tokens in the ledger, 12 passed on"),
        ([LINES[0], LINES[1]._replace(pieces=5)], "5 pieces in the ledger, 4 passed on"),
        ([LINES[0]._replace(at_s=5.0), LINES[1]], "5.05 s after it was sent"),
    ],
)
def test_every_mismatch_is_a_fault(lines: list[Asked], fault: str):
    account = compared(lines, ROWS, [], 8.0)
    assert not account.holds
    assert any(fault in one for one in account.faults)


def test_refusals_are_allowed_only_while_the_port_is_closed():
    refused = Asked(15.0, "refused", 0, None)
    lines = [LINES[0], refused, LINES[1]]
    assert compared(lines, ROWS, [(14.0, 16.0)], 8.0).holds
    assert not compared(lines, ROWS, [(16.5, 18.0)], 8.0).holds


def test_gone_is_allowed_only_while_the_server_was_killed():
    gone = LINES[1]._replace(kind="gone", lasted_s=3.0)
    assert compared([LINES[0], gone], ROWS, [], 8.0, kills=[(21.0, 22.0)]).holds
    assert not compared([LINES[0], gone], ROWS, [], 8.0, kills=[(30.0, 32.0)]).holds


def test_a_client_may_leave_only_after_a_silence():
    row = Seen(1, 0.0, "pass", 0, None, "left", quiet_s=8.1)
    assert right_kinds(row, 8.0) == {"not_answered"}
    row.pieces = 3
    assert right_kinds(row, 8.0) == {"stalled"}
    row.quiet_s = 2.0
    assert right_kinds(row, 8.0) == set()


def test_the_ledger_is_ordered_by_time():
    failures = [Failure(case="m", round=1, started_s=s, lasted_s=1, kind="error", why="w") for s in (7, 3)]
    assert [line.at_s for line in ledger([], failures, 100.0)] == [103.0, 107.0]


def test_an_hour_has_kills_and_refusals():
    plan = planned(60, 7)
    assert plan == planned(60, 7)
    assert {event.kind for event in plan} == {"kill", "refuse"}
    assert len(plan) == 24
    assert [event.at_s for event in plan] == sorted(event.at_s for event in plan)
    assert plan[-1].at_s + plan[-1].seconds < 3600
