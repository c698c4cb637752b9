"""What each measurement would send, stated before it starts."""

import pytest

from unslow.commands._formats import Looking
from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import reported_fact
from unslow.page.server.live_run import LABELS, NOTHING_RUNS, make_offer

URL = "http://127.0.0.1:8080"


def subject(**facts):
    known = {"name": "llama.cpp", "url": URL, "state": "loaded", "busy_slots": 0, "context_length": 8192} | facts
    return Subject(
        runtime=Runtime().with_facts(**{name: reported_fact(value, "test") for name, value in known.items()})
    )


def told(one, kind, **request):
    seen = Snapshot(unslow_version="0", taken_at="", machine=Machine(), subjects=(one,) if one else ())
    return make_offer(seen, one, Looking(**request), kind)


@pytest.mark.parametrize("kind", LABELS)
def test_offer_for_an_idle_server_names_its_url(kind, wording):
    offer = told(subject(), kind)
    wording(offer.words, tells=URL)
    assert not offer.refused


def test_offer_counts_follow_the_protocol_and_the_context(wording):
    wording(told(subject(), "bench").words, tells=("21", "3,708"))
    wording(told(subject(context_length=2048), "bench").words, tells="1,660")
    wording(told(subject(name="vLLM"), "bench").words, tells="11")
    wording(told(subject(), "depth").words, tells="8,192")


def test_quick_offer_sends_less():
    usual, quick = told(subject(), "bench").words, told(subject(), "bench", quick=True).words
    assert "3,708" in usual
    assert "3,708" not in quick


def test_busy_server_is_only_observed_and_refuses_a_benchmark(wording):
    wording(told(subject(busy_slots=2), "diagnose").words)
    wording(told(subject(busy_slots=2), "bench").refused, tells="2")


@pytest.mark.parametrize("kind", LABELS)
def test_passive_refuses_every_run_and_no_server_means_the_embedded_engine(kind):
    assert "--passive" in told(subject(), kind, passive=True).refused
    assert told(None, kind).words == NOTHING_RUNS
