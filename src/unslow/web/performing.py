"""Performs a run: measures in a thread, tells its lines, and has the desk show what came of it."""

import sys
import traceback

import msgspec

from unslow.app.manners import EVICT, EVICTED
from unslow.app.view.build import Seen
from unslow.app.view.events import Event
from unslow.app.view.live import LiveRun
from unslow.app.visit import ANYWAY, NONE_SENT
from unslow.facts.values import Unknown
from unslow.show._clean import without_controls
from unslow.show._html.document import panel
from unslow.think.view.report import TimelineView
from unslow.web.book import Entry
from unslow.web.desk import Desk
from unslow.web.events import DoneLine, ErrorLine, PanelLine, PassLine, ProgressLine, RunLine, RunWanted
from unslow.web.merging import with_bench, with_diagnosis
from unslow.web.requests import only_url, run_of

_OFTEN_S, _SELDOM_S = 0.15, 1.0
"""Between two looks at a run: while somebody follows it, and while nobody does."""


def begin(desk: Desk) -> None:
    """Start the diagnosis that was asked for on the command line."""
    desk.book.start(RunWanted(kind="diagnose", subject=None), lambda entry: perform(desk, entry))


def perform(desk: Desk, entry: Entry) -> None:
    """The whole of a run; it ends with a line that says how, whatever happens."""
    try:
        seen = desk.seen()
        live = run_of(seen, desk.wanted, entry.wanted)
        entry.run = live.start()
        if entry.is_unwanted:
            live.stop()
        _follow(live, entry, seen)
        entry.tell(_ending(desk, entry, live))
    except Exception as bug:  # noqa: BLE001 (a page that waits for ever would be worse)
        sys.stderr.write(without_controls(traceback.format_exc()))
        entry.tell(ErrorLine(message=f"a bug in unslow: {type(bug).__name__}", hint="the terminal says more"))


def _follow(live: LiveRun, entry: Entry, seen: Seen) -> None:
    """Tell what it tells; pictures are drawn only where somebody looks."""
    since = 0
    while True:
        over = live.wait(_OFTEN_S if entry.watchers else _SELDOM_S)
        for event in live.events(since, pictures=entry.watchers > 0):
            since = event.number
            if line := _line(event, entry, seen):
                entry.tell(line)
        if over:
            return


def _line(event: Event, entry: Entry, seen: Seen) -> RunLine | None:
    """An event as the page is told it; the last one waits until the page's view is new."""
    if event.kind in ("progress", "said"):
        return ProgressLine(text=_on_a_page(event.text), share=event.share)
    if event.kind == "timeline" and event.timeline and entry.watchers:
        return _picture(event.timeline, entry.wanted.subject or 0, seen)
    if event.kind == "answer" and event.answer and event.answer.round:
        answer = event.answer
        words = f"{answer.case}: {answer.generated_tokens:,} tokens after {answer.prompt_tokens:,}"
        return PassLine(text=words, tokens_per_s=answer.decode_tokens_per_s)
    return None


def _on_a_page(text: str) -> str:
    """What is told in a terminal, where no command was given and a button stops."""
    return text.removesuffix(NONE_SENT).removesuffix(ANYWAY).replace("Ctrl-C", "Stop")


def _picture(timeline: TimelineView, number: int, seen: Seen) -> PanelLine | None:
    if number >= len(seen.view.subjects):
        return None  # an engine that was started for this: the page has no place for it yet
    subjects = list(seen.view.subjects)
    subjects[number] = msgspec.structs.replace(subjects[number], timeline=timeline)
    view = msgspec.structs.replace(seen.view, subjects=tuple(subjects))
    return PanelLine(subject=number, name="timeline", html=str(panel(view, number, "timeline")))


def _ending(desk: Desk, entry: Entry, live: LiveRun) -> RunLine:
    """The last line, after what was measured is shown."""
    if live.error:
        hint = live.error.hint
        return (
            ErrorLine(message=live.error.message, hint="", anyway=EVICTED)
            if hint == EVICT
            else ErrorLine(message=live.error.message, hint=hint)
        )
    if live.bug:
        sys.stderr.write(without_controls("".join(traceback.format_exception(live.bug))))
        return ErrorLine(message=f"a bug in unslow: {type(live.bug).__name__}", hint="the terminal says more")
    if desk.closing:
        return DoneLine(text="the page was closed", stopped=True)
    before = desk.seen()
    if live.seen:
        desk.take(with_diagnosis(before, live.seen, desk.wanted, only_url(before, entry.wanted)))
    elif live.result:
        desk.take(with_bench(before, live.result.bench, desk.wanted))
    desk.prepare()
    last = live.events()[-1]
    after = desk.seen()
    moved = _order(before) != _order(after)
    anyway = EVICTED if live.seen and _is_only_observed(live.seen) else ""
    return DoneLine(text=_ended(last), stopped=last.stopped, reload=moved, anyway=anyway)


def _is_only_observed(seen: Seen) -> bool:
    """Whether nothing was asked for the sake of a conversation."""
    speeds = [subject.run.decode_tokens_per_s for subject in seen.snapshot.subjects]
    return any(isinstance(speed, Unknown) and speed.how_to_get == EVICT for speed in speeds)


def _ended(last: Event) -> str:
    """What came of it in a sentence: the rest stands in the verdict."""
    first, stop, _ = last.text.partition(". ")
    said = first + stop.strip()
    return f"stopped: {said}" if last.stopped and "stopped" not in said else said


def _order(seen: Seen) -> list[tuple[int, str]]:
    """Which subject is where: another order, or another number of them, is another page."""
    return [(subject.number, subject.url) for subject in seen.view.report.subjects]
