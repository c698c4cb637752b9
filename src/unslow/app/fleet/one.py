"""One instance of a fleet in full, as `unslow diagnose` shows a machine."""

import difflib
from collections.abc import Sequence

import msgspec

from unslow.app.fleet.reading import Fleet, read_fleet
from unslow.app.fleet.request import FleetRequest
from unslow.app.progress import Progress
from unslow.app.save import save as save_snapshot
from unslow.app.spell import spelled
from unslow.facts.errors import UserError
from unslow.fleet.by_itself import about_of
from unslow.fleet.member import Member
from unslow.fleet.snapshots import snapshot_of
from unslow.think.judge import diagnose
from unslow.think.report import Report

_SHOWN = 5


def instance_report(request: FleetRequest, key: str, save: str, progress: Progress) -> Report:
    """The whole diagnosis of the instance of that key; its snapshot is written where a file is named."""
    fleet = read_fleet(request, progress)
    member = member_named(fleet.members, key)
    snapshot = snapshot_of(member, fleet.taken_at)
    if save:
        save_snapshot(snapshot, save, progress)
    report = spelled(diagnose(snapshot), snapshot)
    notes = (_whose(member, fleet), *about_of(member).notes)
    subjects = tuple(msgspec.structs.replace(s, notes=(*notes, *s.notes)) for s in report.subjects)
    return msgspec.structs.replace(report, subjects=subjects)


def _whose(member: Member, fleet: Fleet) -> str:
    """Which instance this is: a part of its key may be all that was given."""
    host = f" on {member.host_name}" if member.host_name and member.host_name not in member.key else ""
    return f"This is {member.key}{host}: the last {member.window_s / 60:g} min of {fleet.shown_url}."


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
