"""The answer of `unslow devices`, for a person or a program: devices side by side."""

from collections.abc import Iterator

from rich.console import Group, RenderableType

from unslow.show._buy import fits, memory, money, price, speed, work
from unslow.show._console import Column, dim, head, table_of
from unslow.show._kinds import ReportKind
from unslow.show._units import GB, span
from unslow.think.buy.devices import NOTE_ON_JOULES
from unslow.think.buy.report import DevicesReport, RigShown

_PLAIN = (
    Column("DEVICE", right=False), Column("GB"), Column("GB/s"), Column("W"), Column("YEAR"),
    Column("PRICE"), Column("MAKER", right=False, spare=1), Column("KIND", right=False, spare=2),
)  # fmt: skip
_FULL = (
    Column("DEVICE", right=False), Column("GB"), Column("GB/s", spare=5), Column("FITS", right=False),
    Column("TOK/S"), Column("80 %", right=False, spare=1), Column("PROMPT", spare=3),
    Column("80 %", right=False, spare=3), Column("WITH", right=False, spare=3), Column("FIRST", spare=4),
    Column("PRICE"), Column("PER T/S"), Column("W", spare=2), Column("TOK/J", spare=6), Column("YEAR", spare=7),
)  # fmt: skip


def _answer(report: DevicesReport, width: int) -> RenderableType:
    asked, count = report.asked, len(report.devices)
    if asked is None:
        title = head(f"{count}", _of_how_many(count, report.catalogue_devices))
        table = table_of(_PLAIN, (_plain_row(rig) for rig in report.devices), width)
        return Group(title, "", table, "", *(dim(note) for note in report.notes))
    order = f", by {report.sorted_by}" if report.sorted_by else ""
    title = head(f"{asked.model} {asked.quant}", f"on {count} device{'' if count == 1 else 's'}{order}")
    table = table_of(_FULL, (_full_row(rig, asked.users) for rig in report.devices), width)
    about = dim(f"{work(asked)}; first token of a prompt of {asked.prompt_tokens:,}; prices in {report.currency}")
    is_shown = any(column.header == "TOK/J" for column in table.columns)  # it goes first where there is no room
    notes = (note for note in report.notes if is_shown or note != NOTE_ON_JOULES)
    return Group(title, about, "", table, "", *_reasons(report), *(dim(note) for note in notes))


def _of_how_many(count: int, every: int | None) -> str:
    of_all = f" of the {every:,} in the catalogue (--all shows every one)" if every and count < every else ""
    return f"device{'' if count == 1 else 's'}{of_all}"


def _plain_row(rig: RigShown) -> tuple[str, ...]:
    return (
        rig.name, memory(rig.memory_bytes), _bandwidth(rig), _watts(rig), str(rig.year or "?"), price(rig.price),
        rig.vendor, rig.kind,
    )  # fmt: skip


def _full_row(rig: RigShown, users: int) -> tuple[str, ...]:
    found = rig.speed
    each = found.each_tokens_per_s if found and users > 1 else found.decode_tokens_per_s if found else None
    middle, ends = speed(each)
    prompt, prompt_ends = speed(found.prefill_tokens_per_s if found else None)
    return (
        rig.name, memory(rig.memory_bytes), _bandwidth(rig), fits(rig), middle, ends,
        prompt, prompt_ends, found.backend if found else "", span(found.first_token_s.mid) if found else "-",
        price(rig.price), money(rig.price_per_token_per_s) if rig.price_per_token_per_s else "-", _watts(rig),
        f"{rig.tokens_per_joule_by_tdp:.2g}" if rig.tokens_per_joule_by_tdp else "-", str(rig.year or "?"),
    )  # fmt: skip


def _bandwidth(rig: RigShown) -> str:
    return f"{rig.bytes_per_s / GB:,.0f}" if rig.bytes_per_s else "?"


def _watts(rig: RigShown) -> str:
    return f"{rig.tdp_w:,.0f}" if rig.tdp_w else "?"


def _reasons(report: DevicesReport) -> Iterator[RenderableType]:
    """Why some have no speed, each reason once."""
    reasons: dict[str, list[str]] = {}
    for rig in report.devices:
        if rig.reason:
            reasons.setdefault(rig.reason, []).append(rig.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 (a line's worth)
        yield dim(f"{', '.join(names[:3])}{more}: {reason}")


render_devices = ReportKind(DevicesReport, _answer)
