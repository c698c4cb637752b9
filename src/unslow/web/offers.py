"""The measurements that the page offers, for each subject of its view."""

from unslow.app.offers import LABELS, Kind, offered
from unslow.app.read_target import is_live
from unslow.app.view.build import Seen
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Subject
from unslow.web.events import Offer, RunWanted
from unslow.web.wanted import Wanted

_AGAIN = "Measure again"


def offers_of(seen: Seen, wanted: Wanted) -> list[Offer]:
    """All of them; none for what was stored, which nobody can measure any more."""
    if not is_live(wanted.request.target):
        return []
    numbers: list[int | None] = list(range(len(seen.view.report.subjects))) or [None]
    kinds = [kind for kind in LABELS if kind in ("diagnose", "bench") or numbers != [None]]
    return [_offer(seen, wanted, kind, number) for number in numbers for kind in kinds]


def check_offered(seen: Seen, wanted: Wanted, asked: RunWanted) -> None:
    """UserError where a run is not among the offers, or is refused."""
    found = [one for one in offers_of(seen, wanted) if one.kind == asked.kind]
    # None is whatever runs; where nothing runs, there is no subject to name
    mine = [one for one in found if asked.subject is None or one.subject in (asked.subject, None)]
    if not mine:
        raise UserError("that can't be measured here", "GET /api/v1/offers tells what can")
    if all(one.refused for one in mine):
        raise UserError(mine[0].refused, "GET /api/v1/offers tells what can be measured")


def subject_at(seen: Seen, number: int | None) -> Subject | None:
    """The subject of a place in the report; None for none."""
    if number is None or not seen.view.report.subjects:
        return None
    return seen.snapshot.subjects[seen.view.report.subjects[number].number]


def _offer(seen: Seen, wanted: Wanted, kind: Kind, number: int | None) -> Offer:
    subject = subject_at(seen, number)
    told = offered(seen.snapshot, subject, wanted.request, kind)
    measured = subject is not None and "decode_tokens_per_s" in seen.view.report.subjects[number or 0].measured
    label = _AGAIN if kind == "diagnose" and measured else LABELS[kind]
    return Offer(kind=kind, subject=number, label=label, words=told.words, refused=told.refused)
