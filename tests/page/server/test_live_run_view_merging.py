"""Measuring one of several servers, and the view after it."""

import msgspec
import pytest
from page_server import SLOW

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import Looking
from unslow.commands.diagnose.look import LookResult
from unslow.commands.diagnose.request import QUICK, limits_of
from unslow.commands.diagnose.target import read_stored
from unslow.facts.values import reported_fact
from unslow.page.build import SeenMachine, Sources, view_of
from unslow.page.server.live_run import bench_of, diagnosis_of, only_url, subject_at, with_diagnosis
from unslow.page.server.runs import RunWanted
from unslow.page.server.state import ServeOptions
from unslow.think.judge.judge import diagnose

FIRST, SECOND = "http://127.0.0.1:1001", "http://127.0.0.1:1002"
WANTED = ServeOptions(Looking(target=SLOW, api_key="k"))


def seen(*urls, speed=None):
    """The recorded server, as if it ran at each of the addresses."""
    stored = read_stored(SLOW)
    (subject,) = stored.subjects
    run = msgspec.structs.replace(subject.run, decode_tokens_per_s=reported_fact(speed, "x")) if speed else subject.run
    subjects = tuple(
        msgspec.structs.replace(subject, run=run, runtime=subject.runtime.with_facts(url=reported_fact(url, "test")))
        for url in urls
    )
    snapshot = msgspec.structs.replace(stored, subjects=subjects)
    report = with_fix_commands(diagnose(snapshot), snapshot)
    looked = LookResult(snapshot, tuple((f"of {url}",) for url in urls))
    return SeenMachine(view_of(report, Sources(snapshot)), snapshot, looked)


@pytest.fixture(scope="module")
def two():
    return seen(FIRST, SECOND)


def test_measuring_one_of_two_servers_keeps_the_other(two):
    number = next(n for n, one in enumerate(two.view.report.subjects) if one.url == SECOND)
    asked = RunWanted(kind="diagnose", subject=number, quick=True)
    request = diagnosis_of(two, WANTED.request, asked)
    assert (request.target, limits_of(request), request.api_key) == (SECOND, QUICK, "k")
    after = with_diagnosis(two, seen(SECOND, speed=99.0), WANTED, only_url(two, asked))
    found = {one.url: one for one in after.view.report.subjects}
    assert set(found) == {FIRST, SECOND}
    assert found[SECOND].measured["decode_tokens_per_s"] == pytest.approx(99)
    assert found[FIRST].measured["decode_tokens_per_s"] < 20
    assert found[FIRST].notes[0] == f"of {FIRST}"
    assert found[SECOND].notes[0] == f"of {SECOND}"


def test_all_servers_are_measured_if_none_is_named(two):
    assert only_url(two, RunWanted(kind="diagnose")) == ""
    one = seen(FIRST)
    assert only_url(one, RunWanted(kind="diagnose", subject=0)) == ""
    after = seen(FIRST, speed=50.0)
    assert with_diagnosis(one, after, WANTED, "") is after


def test_benchmark_targets_the_named_subject(two):
    for number, subject in enumerate(two.view.report.subjects):
        request = bench_of(two, WANTED.request, RunWanted(kind="users", subject=number, quick=True))
        assert (request.target, request.model, request.sweep) == (subject.url, None, ("users",))
        assert (request.quick, request.api_key) == (True, "k")
        assert subject_at(two, number).runtime.process.url.value_or("") == subject.url
    same = seen(FIRST, FIRST)
    assert bench_of(same, WANTED.request, RunWanted(kind="bench", subject=0)).model  # which of the two models
