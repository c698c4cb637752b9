"""A run of a real server against a replayed runtime: started, followed, refused twice, stopped."""

import http.client
import json
import time
from contextlib import closing

import pytest
from lab.replay import serve
from page_server import serving

from unslow.page.server.application import MOST_STREAMS
from unslow.page.server.live_run import perform_run
from unslow.page.server.runs import DoneLine, RunWanted, StartedRun


@pytest.fixture(autouse=True)
def _data(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path / "data"))


def lines_of(page, run, since=0):
    """The lines of a run as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", page.own.port, timeout=60)
    connection.request("GET", f"/api/v1/runs/{run}/events?since={since}", headers=page.usual)
    with closing(connection), connection.getresponse() as answer:
        assert answer.getheader("content-type") == "application/x-ndjson"
        for line in answer:
            if line.strip():
                yield json.loads(line)


def test_run_is_offered_started_followed_and_stopped():
    with serve("vllm", tokens_per_s=400) as url, serving(url) as page:
        offers = {one["kind"]: one for one in page.get("/offers").json}
        assert set(offers) == {"diagnose", "bench", "depth", "users"}
        assert offers["diagnose"]["label"] == "Measure"
        assert "tokens" in offers["diagnose"]["words"]
        assert all(url in one["words"] and not one["refused"] for one in offers.values())
        said = page.send("POST", "/runs", {"kind": "bench", "subject": 0, "quick": True})
        assert said.status == 201
        run = said.json["id"]
        assert page.send("POST", "/runs", {"kind": "diagnose"}).status == 409
        told = []
        for line in lines_of(page, run):
            told.append(line)
            if line["event"] == "pass" and not any(one["event"] == "stop" for one in told):
                told.append({"event": "stop"})
                assert page.send("DELETE", f"/runs/{run}").status == 200
        events = [one["event"] for one in told]
        assert {"progress", "pass", "done"} <= set(events)
        assert told[-1]["stopped"] is True
        assert any(url in one.get("text", "") for one in told if one["event"] == "progress")
        numbers = [one["number"] for one in told if "number" in one]
        assert numbers == sorted(set(numbers))
        assert page.get(f"/runs/{run}").json["state"] == "stopped"
        again = list(lines_of(page, run, since=numbers[-2]))
        assert [one["number"] for one in again] == numbers[-1:]


def test_polled_run_reports_its_progress():
    with serve("vllm", tokens_per_s=60) as url, serving(url) as page:
        run = page.send("POST", "/runs", {"kind": "bench", "subject": 0, "quick": True}).json["id"]
        deadline = time.monotonic() + 10
        while not (told := page.get(f"/runs/{run}").json)["text"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (told["state"], told["text"] != "") == ("running", True)


def test_run_stopped_before_it_begins_measures_nothing(wording):
    with serve("vllm", tokens_per_s=60) as url, serving(url) as page:
        entry = StartedRun(RunWanted(kind="bench", subject=0))
        entry.stop()
        perform_run(page.state, entry)
        assert entry.status().state == "stopped"
        wording(entry.status().text)


def test_passive_server_starts_no_run():
    with serve("vllm", tokens_per_s=400) as url, serving(url, passive=True) as page:
        assert all("--passive" in one["refused"] for one in page.get("/offers").json)
        assert page.send("POST", "/runs", {"kind": "bench", "subject": 0}).status == 400
        assert page.get("/runs").json == []


@pytest.mark.real
def test_completed_diagnosis_updates_the_page():
    with serve("vllm", tokens_per_s=60) as url, serving(url) as page:
        before = page.get("/report").json["subjects"][0]
        assert "decode_tokens_per_s" not in before["measured"]
        run = page.send("POST", "/runs", {"kind": "diagnose", "subject": 0, "quick": True}).json["id"]
        told = list(lines_of(page, run))
        assert told[-1]["event"] == "done"
        assert not told[-1]["stopped"]
        after = page.get("/report").json["subjects"][0]
        assert after["measured"]["decode_tokens_per_s"] > 1
        assert page.get("/offers").json[0]["label"] == "Measure again"


@pytest.mark.real
def test_closed_stream_frees_its_place():
    with serve("vllm", tokens_per_s=60) as url, serving(url) as page:
        run = page.send("POST", "/runs", {"kind": "bench", "subject": 0}).json["id"]
        for _ in range(12):
            lines = lines_of(page, run)
            next(lines)
            lines.close()
        deadline = time.monotonic() + 20
        while page.state.runs.entry(run).watchers and time.monotonic() < deadline:
            time.sleep(0.1)
        assert page.state.runs.entry(run).watchers == 0


def test_number_of_streams_per_run_is_limited():
    with serving() as page:
        entry = page.state.runs.start(RunWanted(kind="bench"), lambda one: one.tell(DoneLine(text="over")))
        entry.watchers = MOST_STREAMS
        assert page.get(f"/runs/{entry.id}/events").status == 409
        entry.watchers = 0
        assert [line["event"] for line in lines_of(page, entry.id)] == ["done"]
        assert entry.watchers == 0
