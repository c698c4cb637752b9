"""Writes the report with all its pictures: one file that asks nobody, masked unless the user wants it otherwise."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.app.bench.history import read_benches
from unslow.app.progress import Progress
from unslow.app.request import Request
from unslow.app.save import write_whole
from unslow.app.verify.reading import read_verified
from unslow.app.view import masked_view, view_target
from unslow.commands.report import ReportRequest
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.think.verify.report import VerifyReport
from unslow.think.view.report import SubjectView, View

LARGEST_BYTES = 6_000_000
"""What an issue tracker takes without complaint; a page beyond it goes without the answers of its sliders."""
SUFFIXES = {"html": ".html", "markdown": ".md", "json": ".json"}
_FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"}
_LONGEST_TITLE = 200


class Wanted(NamedTuple):
    """What is to be written, and where."""

    request: Request
    output: str
    form: str
    title: str = ""
    masked: bool = True
    benches: tuple[Bench, ...] = ()
    verified: VerifyReport | None = None

    @classmethod
    def of(cls, asked: ReportRequest) -> "Wanted":
        """What the flags mean; files are read and the place is tried before anything is measured."""
        form = form_of(asked.format, asked.output)
        wanted = cls(
            request=Request.of(asked),
            output=asked.output or f"unslow-report{SUFFIXES[form]}",
            form=form,
            title=(asked.title or "")[:_LONGEST_TITLE],
            masked=not asked.no_mask,
            benches=tuple(bench for path in asked.bench for bench in read_benches(path)),
            verified=read_verified(asked.verify) if asked.verify else None,
        )
        _check_place(wanted.output)
        return wanted


def form_of(form: str | None, output: str | None) -> str:
    """The format that was named, or that the name of the file means; UserError where there is no such format."""
    if form is None:
        return _FORMS.get(Path(output or "").suffix.lower(), "html")
    if form not in SUFFIXES:
        raise UserError(f"there is no format {form!r} of this report", f"try one of {', '.join(SUFFIXES)}")
    return form


def write_report(wanted: Wanted, progress: Progress) -> None:
    """Diagnose, draw, write, and say where."""
    seen = view_target(
        wanted.request, progress, benches=wanted.benches, verified=wanted.verified, ready=wanted.form == "html"
    )
    view = masked_view(seen.view, seen.looked) if wanted.masked else seen.view
    text = rendered(view, wanted.form, wanted.title)
    write_whole(text.encode(), wanted.output)
    if wanted.output != "-":
        told = "masked" if wanted.masked else "not masked: look at it before you share it"
        progress.say(f"wrote {wanted.output} ({len(text.encode()) / 1000:,.0f} kB, {told})")


def rendered(view: View, form: str, title: str = "") -> str:
    """The view in that format."""
    if form == "json":
        from unslow.show._clean import as_json  # noqa: PLC0415 (each format imports only what it needs)

        return as_json(view) + "\n"
    if form == "markdown":
        from unslow.show._view_markdown import view_markdown  # noqa: PLC0415

        return view_markdown(view, title)
    return _page(view, title)


def _page(view: View, title: str) -> str:
    from unslow.show._html.document import document  # noqa: PLC0415

    text = document(view, title=title)
    if len(text.encode()) <= LARGEST_BYTES:
        return text
    return document(msgspec.structs.replace(view, subjects=tuple(map(_without_ready, view.subjects))), title=title)


def _without_ready(subject: SubjectView) -> SubjectView:
    if subject.memory is None:
        return subject
    return msgspec.structs.replace(subject, memory=msgspec.structs.replace(subject.memory, ready=()))


def _check_place(output: str) -> None:
    """UserError where nothing can be written: better told before a minute of measuring."""
    if output == "-":
        return
    path = Path(os.path.realpath(output))
    if path.is_dir():
        raise UserError(f"{output} is a folder", "name a file in it, such as report.html")
    if not path.parent.is_dir():
        raise UserError(f"{output}: there is no folder {path.parent}", "make it first, or name another place")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{output} can't be written", "name another place")
