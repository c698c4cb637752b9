"""What is told before anybody starts a measurement."""

import pytest

from unslow.commands._diagnosis_options import Looking
from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import reported
from unslow.page.server.live_run import LABELS, NOTHING_RUNS, offered

URL = "http://127.0.0.1:8080"


def subject(**facts):
    known = {"name": "llama.cpp", "url": URL, "state": "loaded", "busy_slots": 0, "context_length": 8192} | facts
    return Subject(runtime=Runtime(**{name: reported(value, "test") for name, value in known.items()}))


def told(one, kind, **request):
    seen = Snapshot(unslow_version="0", taken_at="", machine=Machine(), subjects=(one,) if one else ())
    return offered(seen, one, Looking(**request), kind)


@pytest.mark.parametrize("kind", LABELS)
def test_an_idle_server_is_offered_with_how_much_is_sent_to_whom(kind, wording):
    offer = told(subject(), kind)
    wording(offer.words, tells=URL)
    assert not offer.refused


def test_the_numbers_are_those_of_the_protocol_within_its_context(wording):
    wording(told(subject(), "bench").words, tells=("21", "3,708"))
    wording(told(subject(context_length=2048), "bench").words, tells="1,660")
    wording(told(subject(name="vLLM"), "bench").words, tells="11")
    wording(told(subject(), "depth").words, tells="8,192")


def test_whoever_wants_it_quick_is_told_of_less():
    usual, quick = told(subject(), "bench").words, told(subject(), "bench", quick=True).words
    assert "3,708" in usual
    assert "3,708" not in quick


def test_a_busy_server_is_observed_and_not_benchmarked(wording):
    wording(told(subject(busy_slots=2), "diagnose").words)
    wording(told(subject(busy_slots=2), "bench").refused, tells="2")


@pytest.mark.parametrize("kind", LABELS)
def test_passive_refuses_all_and_nothing_running_asks_nobody(kind):
    assert "--passive" in told(subject(), kind, passive=True).refused
    assert told(None, kind).words == NOTHING_RUNS
