"""Each query refused alone: its readings are missing, and no verdict or finding changes because of that."""

from typing import NamedTuple

import pytest
from lab.fleet.bed import BEFORE_S, healthy, sent_bed
from lab.fleet.faults import with_fault
from tests.real_prometheus import prometheus_program

from unslow.facts.errors import UserError
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.answers import QueryAnswer, Series
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import PACKS, Options
from unslow.fleet.snapshots import snapshot_of
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge

OPTIONS = Options(compare_s=BEFORE_S)
ILL = ("thermal", "held", "queueing", "swapping")


class Tape:
    """Answers of a real server, to be given again; `refused` names the query that gets none."""

    def __init__(self, answers, now_s, refused=""):
        self.answers, self.now_s, self.refused = answers, now_s, refused

    def instant(self, query, at=None, about=""):
        if about == self.refused:
            return QueryAnswer([], failure="it took too long")
        told = self.answers.get(about) or QueryAnswer([])
        return told._replace(series=[Series(dict(labels), value) for labels, value in told.series])


class Taping(Tape):
    """The same while it is filled."""

    def __init__(self, prometheus):
        super().__init__({}, prometheus.now_s)
        self.prometheus = prometheus

    def instant(self, query, at=None, about=""):
        self.answers[about] = self.prometheus.instant(query, about=about)
        return super().instant(query, about=about)


class Said(NamedTuple):
    """What is said of one instance."""

    verdict: str
    found: frozenset[str]
    cleared: frozenset[str]


def said(tape):
    return {member.key: said_of(member) for member in read_members(tape, OPTIONS).members}


def said_of(member):
    report = judge(CaseView(next(snapshot_of(member).cases())))
    causes = (frozenset(one.cause for one in told) for told in (report.findings, report.ruled_out))
    return Said(report.verdict, *causes)


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    ill = [with_fault(healthy(n), name) for n, name in enumerate(ILL)]
    known = [*ill, healthy(len(ill))]
    folder = tmp_path_factory.mktemp("alone")
    with sent_bed(prometheus_program(), folder, known, [healthy(n) for n in range(len(known))]) as server:
        with Prometheus(Access(url=server.url)) as prometheus:
            taping = Taping(prometheus)
            read_members(taping, OPTIONS)
        return taping


@pytest.fixture(scope="module")
def truth(tape):
    told = said(Tape(tape.answers, tape.now_s))
    assert {"slow", "normal"} <= {one.verdict for one in told.values()}
    return told


def test_any_query_except_targets_may_fail(tape, truth):
    asked = [name for name in tape.answers if name != "targets"]
    assert {name for name, of, *_ in PACKS if of != "own"} - {"busy", "settings"} <= set(asked)
    wrong = {name: difference for name in asked if (difference := worse(truth, refused(tape, name)))}
    assert wrong == {}


def refused(tape, name):
    return said(Tape(tape.answers, tape.now_s, name))


def worse(truth, told):
    """What is claimed without the response and not with it: a verdict, a finding, or a ruled-out cause."""
    return {
        key: (one, truth[key])
        for key, one in told.items()
        if one.verdict not in (truth[key].verdict, "cannot_tell")
        or one.found - truth[key].found
        or one.cleared - truth[key].cleared
    } | dict.fromkeys(truth.keys() ^ told.keys())


def test_failed_targets_query_is_a_user_error(tape):
    with pytest.raises(UserError, match="could not list the engines"):
        refused(tape, "targets")
