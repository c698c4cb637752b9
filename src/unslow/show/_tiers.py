"""The answer of `unslow tiers`, for a person or a program: what each size of memory runs."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._buy import memory, speed
from unslow.show._console import Column, dim, head, table_of
from unslow.show._kinds import ReportKind
from unslow.show._units import GB, count, size
from unslow.think.buy.tiers_report import MissesShown, RunsShown, TierShown, TiersReport

_COLUMNS = (
    Column("  MODEL", right=False), Column("PARAMS", spare=2), Column("QUANT", right=False), Column("WEIGHTS"),
    Column("CONTEXT TO"), Column("TOK/S"), Column("80 %", right=False, spare=1),
    Column("PROMPT", spare=3), Column("80 %", right=False, spare=4), Column("WITH", right=False, spare=5),
)  # fmt: skip


def _answer(report: TiersReport, width: int) -> RenderableType:
    room = f"with {report.context:,} tokens and {report.quant_least} or finer"
    asked = f"the largest that fit whole, one of each family, {room}"
    parts: list[RenderableType] = [head(f"{report.models} models", "what each size of memory runs"), dim(asked)]
    for tier in report.tiers:
        parts += ["", _title(tier), *_body(tier, width)]
    return Group(*parts, "", *(dim(note) for note in report.notes))


def _title(tier: TierShown) -> Text:
    kind = " shared" if tier.unified else ""
    text = Text(f"{memory(tier.memory_bytes)} GB{kind}", style="bold")
    if tier.device and tier.bytes_per_s:
        text.append(f"  {tier.device}, {tier.bytes_per_s / GB:,.0f} GB/s, typical of {tier.devices}", "dim not bold")
    return text


def _body(tier: TierShown, width: int) -> Iterator[RenderableType]:
    if tier.runs:
        yield table_of(_COLUMNS, (_row(one) for one in tier.runs), width)
    else:
        yield dim("nothing of the catalogue fits")
    for missed in tier.misses:
        yield dim(_missed(missed))


def _row(one: RunsShown) -> tuple[str, ...]:
    middle, ends = speed(one.tokens_per_s)
    prompt, prompt_ends = speed(one.prefill_tokens_per_s)
    alike = f" +{one.alike} alike" if one.alike else ""
    longest = f"{one.most_context:,}" if one.most_context else "?"
    return (
        f"  {one.model}{alike}", count(one.parameters), one.quant, size(one.weights_bytes), longest, middle, ends,
        prompt, prompt_ends, one.backend,
    )  # fmt: skip


def _missed(one: MissesShown) -> str:
    instead = f"; fits {one.would_fit}" if one.would_fit else ""
    return f"not {one.model} {one.quant}: lacks {size(one.lacks_bytes)}{instead}"


render_tiers = ReportKind(TiersReport, _answer)
