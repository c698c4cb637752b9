"""The memory panel: a bar for each memory, the sliders that change it, and what then would be."""

from collections.abc import Sequence

import msgspec

from unslow.page.html.figure import Key, Table, below_drawings, drawings_of
from unslow.page.html.markup import NOTHING, Markup, Sign, badge, command, join_markup, sentence, tag
from unslow.page.html.svg import LINE, Box, Drawing, LabelSpace, Linear, clamp, fit_text, hatch, width, wrap_pieces
from unslow.page.view import Fits, MemoryBar, MemoryPart, MemoryView, Slider, WhatIf
from unslow.show.console import safe_json, safe_text
from unslow.show.units import rate, size

KINDS = {
    "weights": "weights",
    "kv": "KV cache",
    "compute": "compute buffers",
    "stranger": "other programs",
    "reserve": "reserved",
    "free": "free",
    "lacking": "does not fit",
}
"""In the order of a bar."""
_SIGNS: dict[Fits, Sign] = {
    "fits": Sign("Fits", "✓", "ok"),
    "tight": Sign("Tight", "!", "warn"),
    "partly": Sign("Fits partly", "!", "warn"),
    "does_not_fit": Sign("Does not fit", "✗", "bad"),
    "cannot_tell": Sign("Can't tell", "?", "warn"),
}
_HATCHED = {"reserve": "M0,12L12,0M12,12L24,0", "lacking": "M0,12L12,0M0,0L12,12M12,12L24,0M12,0L24,12"}
MOST_BARS, MOST_PARTS = 24, 24  # Of more, the table tells
_HIGH, _GAP = 26.0, 16.0
_EDGE = 2.0  # Room at both ends for the mark of the end
_THINNEST = 1.5  # A part that is there is seen, however small
_SHORT = {"compute": "compute", "lacking": "does not fit"}


def render_memory(part: MemoryView, number: int) -> Markup:
    """The sliders and the answer to where they stand."""
    return join_markup([
        sliders(part.sliders, number),
        tag("div", render_answer(part.now, number), class_="answer", id=f"answer-{number}"),
        tag("p", "Source: ", safe_text(part.source), class_="source") if part.source else NOTHING,
    ])  # fmt: skip


def sliders(shown: Sequence[Slider], number: int) -> Markup:
    """All sliders of a subject; one with a single place is left out."""
    fields = []
    for slider in (slider for slider in shown if len(slider.choices) > 1):
        name = f"memory-{number}-{slider.knob}"
        values = [choice.value for choice in slider.choices]
        labels = [safe_text(choice.label) for choice in slider.choices]
        place = values.index(slider.value) if slider.value in values else 0
        data = [safe_json(msgspec.json.encode(texts).decode()) for texts in (values, labels)]
        entry = tag(
            "input", type="range", id=name, name=slider.knob, min=0, max=len(values) - 1, step=1, value=place,
            data_values=data[0], data_labels=data[1], aria_valuetext=labels[place],
        )  # fmt: skip
        words = tag("output", labels[place], for_=name)
        fields.append(tag("div", tag("label", safe_text(slider.label), for_=name), entry, words, class_="slider"))
    if not fields:
        return NOTHING
    about = "What-if settings"
    return tag("form", *fields, class_="sliders", data_subject=number, aria_label=about, autocomplete="off")


def render_answer(what_if: WhatIf, number: int = 0) -> Markup:
    """What a slider's answer replaces: the verdict, the speed, the bars and the command."""
    name, sign, summary = f"memory-{number}", _SIGNS[what_if.verdict], safe_text(what_if.summary)
    said, words = summary or sign.word, summary.removeprefix("Fits: ").removeprefix(f"{sign.word}: ")
    speeds = []
    for what, speed in (("Decode", what_if.decode_tokens_per_s), ("Prefill", what_if.prefill_tokens_per_s)):
        if speed:
            ends = tag("span", f" {rate(speed.low)} to {rate(speed.high)}", class_="interval")
            value = tag("dd", tag("strong", rate(speed.mid)), " tok/s", ends)
            speeds.append(tag("div", tag("dt", what), value))
    there, keys = {part.kind for bar in what_if.bars for part in bar.parts if part.bytes > 0}, []
    for kind in (kind for kind in KINDS if kind in there):
        lines = f'<path d="{_HATCHED[kind]}" class="hatch-{kind}"/>' if kind in _HATCHED else ""
        keys.append(Key(Markup(f'<rect x="0" y="0" width="24" height="12" class="part-{kind}"/>{lines}'), KINDS[kind]))
    rows = [(bar.name, part_words(part), part_size(part)) for bar in what_if.bars for part in bar.parts]
    rows += [(b.name, "total", size(clamp(b.capacity_bytes))) for b in what_if.bars if b.capacity_bytes is not None]
    return join_markup([
        tag("p", badge(sign), " " if words else None, sentence(words) if words else NOTHING, class_="fits"),
        tag("dl", *speeds, class_="expected") if speeds else NOTHING,
        tag(
            "figure",
            tag("figcaption", "Contents of each memory", class_="quiet"),
            *drawings_of(name, "Memory by device", said, lambda drawing: draw_bars(drawing, what_if.bars)),
            below_drawings(keys, [Table("Memory by device", ("Memory", "Content", "Size"), rows)]),
            class_="chart",
            id=f"{name}-figure",
        ),
        command(safe_text(what_if.command)) if what_if.command else NOTHING,
        *(tag("p", sentence(safe_text(note)), class_="note") for note in what_if.notes),
    ])  # fmt: skip


def draw_bars(drawing: Drawing, bars: Sequence[MemoryBar]) -> None:
    """All bars one below the other: the devices to one scale, the host to its own."""
    hatch(drawing, "reserve", "hatch-reserve")
    hatch(drawing, "lacking", "hatch-lacking", crossed=True)
    groups: dict[tuple[object, ...], list[MemoryBar]] = {}
    for bar in bars[:MOST_BARS]:
        groups.setdefault((bar.is_host, bar.capacity_bytes, bar.parts, bar.fits), []).append(bar)
    lengths = {}
    for key, (bar, *_) in groups.items():
        lengths[key] = max(clamp(bar.capacity_bytes or 0), *(end for _, _, end in _stretches(bar)), 0.0)
    longest = max((lengths[key] for key, (bar, *_) in groups.items() if not bar.is_host), default=0.0)
    for key, (bar, *alike) in groups.items():
        top = _title(drawing, bar, f"{bar.name}, and {len(alike)} identical" if alike else bar.name)
        scale = Linear(0, lengths[key] if bar.is_host else longest, _EDGE, drawing.format.width - _EDGE)
        drawn = []
        for part, start, stop in _stretches(bar):
            left, right = scale.at(start), max(scale.at(stop), min(scale.end, scale.at(start) + _THINNEST))
            area = Box(min(left, scale.end - _THINNEST), top, right, top + _HIGH)
            fill = part.kind if part.kind in {"reserve", "lacking"} else ""
            drawing.box(area, f"part part-{part.kind}", f"{part_words(part)}: {part_size(part)}", fill)
            drawn.append((part, area))
        if not drawn:
            drawing.box(Box(scale.start, top, scale.end, top + _HIGH), "part part-free")
        if bar.capacity_bytes and bar.capacity_bytes > 0:  # the mark where the memory ends
            end = scale.at(bar.capacity_bytes)
            drawing.line(end, top - 3, end, top + _HIGH + 3, "end")
        drawing.height = _labels(drawing, drawn, top + _HIGH + 2) + _GAP
    if not bars:
        drawing.words(0, LINE, "memory sizes unknown", class_="quiet")
        drawing.height = 2 * LINE


def _stretches(bar: MemoryBar) -> list[tuple[MemoryPart, float, float]]:
    """Start and end of each part; what does not fit starts at the capacity."""
    before, found = 0.0, []
    for part in [part for part in bar.parts if part.bytes > 0][:MOST_PARTS]:
        beyond = part.kind == "lacking" and bar.capacity_bytes is not None
        start = clamp(max(0, bar.capacity_bytes or 0)) if beyond else before
        end = start + clamp(part.bytes)
        found.append((part, start, end))
        before = max(before, end)
    return found


def _title(drawing: Drawing, bar: MemoryBar, name: str) -> float:
    """Returns the y of the foot."""
    right = f"{size(clamp(bar.capacity_bytes))} total" if bar.capacity_bytes is not None else "size unknown"
    if lacking := sum(part.bytes for part in bar.parts if part.kind == "lacking" and part.bytes > 0):
        right += f", ✗ {size(clamp(lacking))} short"
    elif bar.fits is not None:
        right += ", ✓ fits" if bar.fits else ", ✗ does not fit"
    y, whole = drawing.height + LINE - 2, drawing.format.width - 2 * _EDGE
    drawing.words(_EDGE, y, fit_text(name, whole, bold=True), class_="strong")
    if width(name, bold=True) + width(right) + 8 <= whole:
        drawing.words(drawing.format.width - _EDGE, y, right, "end", "quiet")
        return y + 7
    drawing.words(_EDGE, y + LINE, right, class_="quiet")
    return y + LINE + 7


def _labels(drawing: Drawing, drawn: Sequence[tuple[MemoryPart, Box]], top: float) -> float:
    """Below each part if there is room, large parts first; the rest in lines below. Returns the y of the foot."""
    room = LabelSpace(Box(0, top, drawing.format.width, top + 2 * LINE + 2))
    left_over = []
    for part, area in sorted(drawn, key=lambda one: (one[0].kind != "lacking", -one[0].bytes)):
        name, amount = _SHORT.get(part.kind) or part_words(part), part_size(part)
        said = fit_text(name, max(area.right - area.left, 130))
        half = max(width(said), width(amount)) / 2 + 3
        # Below the middle of the part, or so little beside it that it still stands below the part
        middle = max(half, min(drawing.format.width - half, (area.left + area.right) / 2))
        most = (area.right - area.left) / 2 + half / 3
        lefts = [middle - half + shift for shift in (0, -10, 10, -20, 20, -30, 30) if abs(shift) <= most]
        if spot := room.first_free(Box(left, top, left + 2 * half, top + 2 * LINE) for left in lefts):
            middle = (spot.left + spot.right) / 2
            drawing.words(middle, top + LINE - 2, said, "middle")
            drawing.words(middle, top + 2 * LINE - 3, amount, "middle", "quiet")
        else:
            left_over.append((area.left, f"{name} {amount}"))
    foot = top + 2 * LINE if drawn else top
    lines = wrap_pieces([said for _, said in sorted(left_over)], drawing.format.width - 40)
    for place, said in enumerate(lines, start=1):
        drawing.words(_EDGE, foot + place * LINE - 1, f"{'also ' if place == 1 else ''}{said}", class_="quiet")
    return foot + len(lines) * LINE


def part_words(part: MemoryPart) -> str:
    """What a part is; another program by its name."""
    return part.name or KINDS[part.kind]


def part_size(part: MemoryPart) -> str:
    """How much of it is there, and how much it would be where it has no room whole."""
    there = size(clamp(part.bytes))
    return there if part.wanted_bytes is None else f"{there} of {size(clamp(part.wanted_bytes))}"
