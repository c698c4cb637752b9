"""A fault of a real server shows in the metrics: UNSLOW_LLAMA_SERVER and UNSLOW_LLAMA_MODEL name what is needed."""

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from real_llama_server import NEEDED, served

from unslow.commands.watch import WatchRequest
from unslow.fleet.openmetrics import exposition
from unslow.fleet.self_diagnosis import Looker
from unslow.fleet.settings import ASK_S, ExporterSettings
from unslow.look.system.live import LiveSystem

MODEL = os.environ.get("UNSLOW_LLAMA_MODEL", "")
pytestmark = [*NEEDED, pytest.mark.skipif(not MODEL, reason="UNSLOW_LLAMA_MODEL names no model")]
WATCH_S = 12.0


@contextmanager
def load(url: str) -> Iterator[None]:
    """One request after the other."""
    over = Event()

    def run() -> None:
        body = json.dumps({"prompt": "A long story:", "n_predict": 64, "ignore_eos": True}).encode()
        while not over.is_set():
            asked = urllib.request.Request(f"{url}/completion", body, {"Content-Type": "application/json"})
            urllib.request.urlopen(asked, timeout=120).read()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def metrics(url: str, **wanted) -> dict[str, list]:
    looker = Looker(LiveSystem(), ExporterSettings(watch=WatchRequest(target=url, interval=ASK_S), **wanted))
    try:
        report, state = looker.look_once(WATCH_S, lambda _text, _share: None)
    finally:
        looker.stop()
    found: dict[str, list] = {}
    for family in strict(exposition(report, state, "openmetrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def causes(known: dict[str, list]) -> set[str]:
    return {one.labels["cause"] for one in known["unslow_finding"] if one.value == 1}


def test_real_server_with_too_many_threads_has_only_that_finding():
    threads = 4 * (os.cpu_count() or 1)
    with served(MODEL, "-t", str(threads)) as (target, _server), load(target.url):
        time.sleep(1)
        ill = metrics(target.url)
    with served(MODEL) as (target, _server), load(target.url):
        time.sleep(1)
        well = metrics(target.url)
    assert "threads_exceed_cores" in causes(ill)
    assert "threads_exceed_cores" not in causes(well)
    speeds = [known["unslow_decode_tokens_per_second"][0].value for known in (ill, well)]
    assert speeds[0] < speeds[1]


def test_measure_every_measures_an_idle_server():
    with served(MODEL, "-np", "2") as (target, _server):
        looker = Looker(
            LiveSystem(),
            ExporterSettings(watch=WatchRequest(target=target.url, interval=ASK_S), measure_every_s=3600.0),
        )
        try:
            looker.attempt()
            report, state = looker.standing
        finally:
            looker.stop()
    assert looker._measurements.missed == (), "a machine that others use may be too slow for it"
    assert report.subjects[0].measured["decode_tokens_per_s"] > 0
    assert report.subjects[0].measured["prefill_tokens_per_s"] > 0
    assert [key for key, _ in state.seen_s] == [f"llama.cpp:{target.url.rpartition(':')[2]}"]
