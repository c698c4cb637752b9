"""What llama-bench prints: its table in markdown, CSV, JSON, JSON lines or SQL."""

from unslow.facts.account import Account
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.llama_bench.comparisons import comparisons_of
from unslow.look.logs.llama_bench.facts import machine_of, model_of, run_of, runtime_of
from unslow.look.logs.llama_bench.formats import rows_of

__all__ = ["parse_text"]


def parse_text(text: Text) -> Seen:
    """The last settings that were measured, their speeds, and what made a difference between rows."""
    rows = rows_of(text)
    if not rows:
        return Seen()
    compared = comparisons_of(rows)
    account = Account(comparisons=reported(compared, rows[0].where) if compared else NOT_LOOKED)
    subject = Subject(runtime=runtime_of(rows[-1]), model=model_of(rows[-1]), run=run_of(rows), account=account)
    indexes = sorted({row.line for row in rows})
    spans = tuple((index, index + 1) for index in indexes)
    return Seen(machine=machine_of(rows[-1]), subject=subject, lines=len(indexes), spans=spans)
