"""What `unslow fleet` does when it asks a Prometheus: every instance judged, or one of them, or the queries shown."""

import difflib
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._command_lines import subject_with_fix_commands, with_fix_commands
from unslow.commands._output import Progress
from unslow.commands.diagnose.target import save as save_snapshot
from unslow.commands.fleet import FleetRequest
from unslow.facts.errors import UserError
from unslow.fleet.capacity.curves import WINDOW_S, curve_queries
from unslow.fleet.judging import judge_members, notes_on
from unslow.fleet.member import Member
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.queries import all_queries
from unslow.fleet.report import FleetReport, Statement
from unslow.fleet.settings import FleetSettings, options_of
from unslow.fleet.snapshots import snapshot_of
from unslow.fleet.summary import fleet_of
from unslow.think.judge.judge import diagnose
from unslow.think.report import Report

IN_PART = ("partial", "limit")
"""Kinds of statements that say of an answer of the server that it was not whole; an engine that is down is none."""
USUAL = 32  # Queries: for a bar that moves before anybody knows how many there are
_SHOWN = 5
FORMATS = ("terminal", "json", "markdown")
FINE, FOUND, UNTOLD = 0, 1, 3


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


def fleet_report(request: FleetSettings, progress: Progress) -> FleetReport:
    """Ask, join, judge each, and hold them against one another."""
    started_s = time.monotonic()
    return report_on(read_fleet(request, progress), request, progress, started_s)


def report_on(fleet: Fleet, request: FleetSettings, progress: Progress, started_s: float) -> FleetReport:
    """The same of a fleet that was read."""
    found = judge_members(fleet.members, request.workers, progress.step, subject_with_fix_commands)
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


def fleet_exit_status(report: FleetReport) -> int:
    """1 where something is slow, failed or slower than its peers, 0 where what could be judged is normal, else 3."""
    verdicts = report.verdicts
    if verdicts.get("slow") or verdicts.get("failed") or any(group.odd for group in report.peers):
        return FOUND
    return FINE if verdicts.get("normal") else UNTOLD


def instance_report(request: FleetSettings, key: str, save: str, progress: Progress) -> Report:
    """The whole diagnosis of the instance of that key; its snapshot is written where a file is named."""
    fleet = read_fleet(request, progress)
    member = member_named(fleet.members, key)
    snapshot = snapshot_of(member, fleet.taken_at)
    if save:
        save_snapshot(snapshot, save, progress)
    report = with_fix_commands(diagnose(snapshot), snapshot)
    # Which instance this is: a part of its key may be all that was given
    host = f" on {member.host_name}" if member.host_name and member.host_name not in member.key else ""
    notes = (f"{member.key}{host}, last {member.window_s / 60:g} min, from {fleet.shown_url}.", *notes_on(member))
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
        raise UserError(f"--instance {key!r} is ambiguous: {names}{more}", "give the full key")
    near = difflib.get_close_matches(key[:200], [m.key for m in members], 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "`unslow fleet` lists the keys"
    raise UserError(f"no instance {key!r} among {len(members)}", hint)


def read_fleet(request: FleetSettings, progress: Progress) -> Fleet:
    """Ask everything; UserError where nobody answers."""

    def step(asked: int) -> None:
        progress.step(f"querying {prometheus.shown_url}", min(0.95, asked / USUAL))

    with Prometheus(request.access, progress.say, step) as prometheus:
        step(0)
        members, statements = read_members(prometheus, request.options)
        progress.say(f"{prometheus.queries_sent} queries, {len(members)} instance{'' if len(members) == 1 else 's'}")
        said = tuple(dict.fromkeys((*prometheus.statements(), *statements)))
        return Fleet(members, said, prometheus.shown_url, prometheus.now_s, prometheus.queries_sent)


def queries_text(asked: FleetRequest) -> str:
    """The queries, each with what it is for."""
    form = asked.format
    if form not in FORMATS:
        raise UserError(f"unknown query format {form!r}", f"try one of {', '.join(FORMATS)}")
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
