"""What `unslow fleet` does: its flags checked, a Prometheus read, every instance or one of them judged."""

import difflib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Self

import msgspec

from unslow import __version__
from unslow.commands._fix_commands import spelled, spelled_subject
from unslow.commands._output import Progress
from unslow.commands.diagnose.target import save as save_snapshot
from unslow.commands.fleet import FleetRequest
from unslow.facts.errors import UserError
from unslow.fleet.capacity.curves import WINDOW_S, curve_queries
from unslow.fleet.judging import judged, notes_on
from unslow.fleet.member import Member
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access, parse_header, read_secret, with_environment
from unslow.fleet.queries import Options, all_queries
from unslow.fleet.report import FleetReport, Statement
from unslow.fleet.snapshots import snapshot_of
from unslow.fleet.summary import fleet_of
from unslow.think.judge.judge import diagnose
from unslow.think.report import Report

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_WHOLE = re.compile(r"(?:\d{1,9}(?:ms|y|w|d|h|m|s)){1,7}")
_PART = re.compile(r"(\d{1,9})(ms|y|w|d|h|m|s)")
_BARE = re.compile(r"\d{1,9}")


def seconds_of(text: str, flag: str) -> float:
    """The seconds that a span means; a bare number is seconds. UserError names the flag."""
    written = text.strip()
    if _BARE.fullmatch(written):
        return float(written)
    if not _WHOLE.fullmatch(written):
        raise UserError(f"{flag} {text[:40]!r} is no span of time", "write it as Prometheus does: 90s, 15m, 1h30m, 2d")
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(written))


ADDRESS = "UNSLOW_PROMETHEUS_URL"
TIMEOUT_S, LONGEST_TIMEOUT_S = 30.0, 3600.0
_WHOLE_S = 300.0  # For all queries together; more where one may take long


def asked_access(asked: FleetRequest, environment: Mapping[str, str] = os.environ) -> Access:
    """What the flags mean; secrets come from files or the environment, as everybody sees command lines."""
    url = asked.prometheus or environment.get(ADDRESS, "")
    if not url:
        raise UserError("no Prometheus is named", f"give --prometheus http://HOST:9090, or set {ADDRESS}")
    timeout_s = seconds_of(asked.timeout, "--timeout") if asked.timeout else TIMEOUT_S
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UserError(f"--timeout {asked.timeout} makes no sense", "give 1s to 1h; the default is 30s")
    given = Access(
        url=url,
        username=asked.username,
        password=read_secret(asked.password_file),
        bearer=read_secret(asked.token_file),
        headers=tuple(map(parse_header, asked.header)),
        ca_file=asked.ca_file,
        certificate=asked.cert,
        key=asked.key,
        check_certificate=not asked.insecure,
        timeout_s=timeout_s,
        whole_s=max(_WHOLE_S, 4 * timeout_s),
    )
    return with_environment(given, environment)


SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 60.0, 7 * 86400.0
"""Two scrapes at the usual interval of half a minute; and what a server can still read for thousands of series."""
LONGEST_COMPARE_S = 366 * 86400.0
NO_COMPARISON = "none"


class FleetSettings(NamedTuple):
    """Whom to ask, over which time, and with how many processes to judge; 0 workers is as many as it is worth."""

    access: Access
    options: Options = Options()
    workers: int = 0

    @classmethod
    def of(cls, asked: FleetRequest) -> Self:
        """From the parsed command line; UserError where a value can't be."""
        return cls(options=options_of(asked), access=asked_access(asked), workers=asked.workers or 0)


def options_of(asked: FleetRequest) -> Options:
    """Which time and which series, checked."""
    window_s = seconds_of(asked.window, "--window") if asked.window else Options().window_s
    if not SHORTEST_WINDOW_S <= window_s <= LONGEST_WINDOW_S:
        raise UserError(f"--window {asked.window} makes no sense", "give 1m to 7d; the default is 15m")
    written, compare_s = asked.compare, Options().compare_s
    if written:
        compare_s = 0.0 if written == NO_COMPARISON else seconds_of(written, "--compare")
    if compare_s and not window_s <= compare_s <= LONGEST_COMPARE_S:
        hint = f"give a span that is longer than the window, or {NO_COMPARISON}"
        raise UserError(f"--compare {written or '1d'} makes no sense", hint)
    return Options(window_s=window_s, compare_s=compare_s, match=asked.match, engines=asked.engines, join=asked.join)


IN_PART = ("partial", "limit")
"""Kinds of statements that say of an answer of the server that it was not whole; an engine that is down is none."""
USUAL = 32  # Queries: for a bar that moves before anybody knows how many there are


class Fleet(NamedTuple):
    """The members, and how they were read."""

    members: list[Member]
    statements: tuple[Statement, ...]
    shown_url: str
    now_s: float
    queries: int

    @property
    def taken_at(self) -> str:
        """When, by the clock of the server."""
        return datetime.fromtimestamp(self.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_fleet(request: FleetSettings, progress: Progress) -> Fleet:
    """Ask everything; UserError where nobody answers."""

    def step(asked: int) -> None:
        progress.step(f"asking {prometheus.shown_url}", min(0.95, asked / USUAL))

    with Prometheus(request.access, progress.say, step) as prometheus:
        step(0)
        members, statements = read_members(prometheus, request.options)
        progress.say(f"{prometheus.asked} queries, {len(members)} instance{'' if len(members) == 1 else 's'}")
        said = tuple(dict.fromkeys((*prometheus.statements(), *statements)))
        return Fleet(members, said, prometheus.shown_url, prometheus.now_s, prometheus.asked)


_SHOWN = 5


def instance_report(request: FleetSettings, key: str, save: str, progress: Progress) -> Report:
    """The whole diagnosis of the instance of that key; its snapshot is written where a file is named."""
    fleet = read_fleet(request, progress)
    member = member_named(fleet.members, key)
    snapshot = snapshot_of(member, fleet.taken_at)
    if save:
        save_snapshot(snapshot, save, progress)
    report = spelled(diagnose(snapshot), snapshot)
    # Which instance this is: a part of its key may be all that was given
    host = f" on {member.host_name}" if member.host_name and member.host_name not in member.key else ""
    whose = f"This is {member.key}{host}: the last {member.window_s / 60:g} min of {fleet.shown_url}."
    notes = (whose, *notes_on(member))
    subjects = tuple(msgspec.structs.replace(s, notes=(*notes, *s.notes)) for s in report.subjects)
    return msgspec.structs.replace(report, subjects=subjects)


def member_named(members: Sequence[Member], key: str) -> Member:
    """The member of that key, or the only one in whose key the text is; UserError that names near ones."""
    found = [m for m in members if m.key == key] or [m for m in members if key in m.key]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        names = ", ".join(m.key for m in found[:_SHOWN])
        raise UserError(f"--instance {key!r} could be {names}{more}", "give the whole key")
    near = difflib.get_close_matches(key[:200], [m.key for m in members], 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "`unslow fleet` lists the keys"
    raise UserError(f"there is no instance {key!r} among {len(members)}", hint)


FORMATS = ("terminal", "json", "markdown")


def queries_text(asked: FleetRequest) -> str:
    """The queries, each with what it is for."""
    form = asked.format
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of queries", f"try one of {', '.join(FORMATS)}")
    options = options_of(asked)
    queries = (*all_queries(options), *curve_queries(options, WINDOW_S))
    if form == "json":
        return json.dumps([query._asdict() for query in queries], indent=1)
    return "\n\n".join(
        f"### {query.of}: {query.name}\n{query.why}\n```promql\n{query.promql}\n```"
        if form == "markdown"
        else f"# {query.of}: {query.name}: {query.why}\n{query.promql}"
        for query in queries
    )


def fleet_report(request: FleetSettings, progress: Progress) -> FleetReport:
    """Ask, join, judge each, and hold them against one another."""
    started_s = time.monotonic()
    fleet = read_fleet(request, progress)
    return report_on(fleet, request, progress, started_s)


def report_on(fleet: Fleet, request: FleetSettings, progress: Progress, started_s: float) -> FleetReport:
    """The same of a fleet that was read."""
    found = judged(fleet.members, request.workers, progress.step, spelled_subject)
    progress.step(f"comparing {len(found)} instances", 1.0)
    head = FleetReport(
        unslow_version=__version__,
        prometheus=fleet.shown_url,
        taken_at=fleet.taken_at,
        window_s=request.options.window_s,
        queries=fleet.queries,
        seconds=0.0,
        complete=not any(statement.kind in IN_PART for statement in fleet.statements),
        statements=fleet.statements,
    )
    return msgspec.structs.replace(fleet_of(found, head), seconds=time.monotonic() - started_s)


FINE, FOUND, UNTOLD = 0, 1, 3


def fleet_exit_status(report: FleetReport) -> int:
    """1 where something is slow, failed or slower than its peers, 0 where what could be judged is normal, else 3."""
    verdicts = report.verdicts
    odd = any(group.odd for group in report.peers)
    if verdicts.get("slow", 0) or verdicts.get("failed", 0) or odd:
        return FOUND
    return FINE if verdicts.get("normal", 0) else UNTOLD
