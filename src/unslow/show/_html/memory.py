"""The memory panel: what lies in each memory, the sliders that change it, and what then would be."""

from unslow.show._clean import safe
from unslow.show._html.figure import Key, Table, drawings, legend, numbers
from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag
from unslow.show._html.memory_bars import KINDS, bars_drawn, part_size, part_words
from unslow.show._html.scales import sane
from unslow.show._html.sliders import sliders
from unslow.show._html.words import Sign, badge, command
from unslow.show._units import rate, size
from unslow.think.report import Range
from unslow.think.view.report import Fits, MemoryBar, MemoryView, WhatIf

_SIGNS: dict[Fits, Sign] = {
    "fits": Sign("Fits", "✓", "ok"),
    "tight": Sign("Tight", "!", "warn"),
    "partly": Sign("Fits in part", "!", "warn"),
    "does_not_fit": Sign("Does not fit", "✗", "bad"),
    "cannot_tell": Sign("Can't tell", "?", "warn"),
}
_HATCHED = {"reserve": "M0,12L12,0M12,12L24,0", "lacking": "M0,12L12,0M0,0L12,12M12,12L24,0M12,0L24,12"}


def render(part: MemoryView, number: int) -> Markup:
    """The sliders and the answer to where they stand."""
    return joined([
        sliders(part.sliders, number),
        tag("div", render_answer(part.now, number), class_="answer", id=f"answer-{number}"),
        tag("p", "Known ", safe(part.source), class_="source") if part.source else NOTHING,
    ])  # fmt: skip


def render_answer(what_if: WhatIf, number: int = 0) -> Markup:
    """What a slider's answer replaces: the verdict, the speed, the bars and the command."""
    name = f"memory-{number}"
    said = safe(what_if.summary) or _SIGNS[what_if.verdict].word
    return joined([
        _verdict(what_if),
        _speeds(what_if),
        tag(
            "figure",
            tag("figcaption", "What lies in each memory", class_="quiet"),
            *drawings(name, "Memory by device", said, lambda drawing: bars_drawn(drawing, what_if.bars)),
            legend(_keys(what_if.bars)),
            numbers([_table(what_if.bars)]),
            class_="chart",
            id=f"{name}-figure",
        ),
        command(safe(what_if.command)) if what_if.command else NOTHING,
        *(tag("p", sentence(safe(note)), class_="note") for note in what_if.notes),
    ])  # fmt: skip


def _verdict(what_if: WhatIf) -> Markup:
    """The sentence after its sign, which it need not repeat."""
    sign = _SIGNS[what_if.verdict]
    said = safe(what_if.summary).removeprefix("Fits: ").removeprefix(f"{sign.word}: ")
    return tag("p", badge(sign), " " if said else None, sentence(said) if said else NOTHING, class_="fits")


def _speeds(what_if: WhatIf) -> Markup:
    rows = [("Answer", what_if.decode_tokens_per_s), ("Prompt", what_if.prefill_tokens_per_s)]
    cells = [tag("div", tag("dt", words), tag("dd", _speed(speed))) for words, speed in rows if speed]
    return tag("dl", *cells, class_="expected") if cells else NOTHING


def _speed(speed: Range) -> Markup:
    between = f" {rate(speed.low)} to {rate(speed.high)}"
    return joined([tag("strong", rate(speed.mid)), " tok/s", tag("span", between, class_="interval")])


def _keys(bars: tuple[MemoryBar, ...]) -> list[Key]:
    """The kinds that are there, in the order in which they lie."""
    there = {part.kind for bar in bars for part in bar.parts if part.bytes > 0}
    return [Key(_swatch(kind), words) for kind, words in KINDS.items() if kind in there]


def _swatch(kind: str) -> Markup:
    lines = f'<path d="{_HATCHED[kind]}" class="hatch-{kind}"/>' if kind in _HATCHED else ""
    return Markup(f'<rect x="0" y="0" width="24" height="12" class="part-{kind}"/>{lines}')


def _table(bars: tuple[MemoryBar, ...]) -> Table:
    rows = [(bar.name, part_words(part), part_size(part)) for bar in bars for part in bar.parts]
    whole = [(bar.name, "in all", size(sane(bar.capacity_bytes))) for bar in bars if bar.capacity_bytes is not None]
    return Table("Memory by device", ("Memory", "What", "Size"), [*rows, *whole])
