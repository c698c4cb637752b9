"""What each panel says, from the numbers of a moment: speed, wall, phases, requests, suspicion."""

from collections.abc import Sequence

from rich.text import Text

from unslow.show._units import rate, span
from unslow.think.view.live import RequestNow, SpeedNow, Suspicion, Tick
from unslow.tui.glyphs import Glyphs, chart, gauge, sparkline
from unslow.tui.rows import Row, room, styled, wrapped

SPEED, WALL, PHASES, REQUESTS, SUSPICION = "Speed", "Wall", "Phases", "Requests", "Suspicion"
_FAR = 0.8
"""Of the low end of what is expected: a speed below it is shown as bad."""
_FEWEST_CHART_ROWS, _MOST_CHART_ROWS = 3, 8
_STYLES = {"decode": "green", "prefill": "cyan", "queue": "yellow", "load": "yellow", "idle": "dim"}
_KINDS = {"found": "bold red", "suspected": "yellow", "nothing": "green", "cannot_tell": ""}
PHASE_WORDS = {"busy": "at work, not told at what", "unknown": "not told"}


def speed_rows(tick: Tick, history: Sequence[float | None], width: int, glyphs: Glyphs) -> list[Row]:
    """Tokens per second now and over the last minutes, against what is expected."""
    speed, wide = tick.speed, room(width)
    rows = [Row(SPEED, _now(tick, history, wide, glyphs))]
    if speed.missing is not None:
        text = f"{speed.missing.why}. To get it: {speed.missing.how_to_get}."
        rows += [Row(SPEED, styled((line, "yellow")), 2) for line in wrapped(text, wide, 3)]
    if speed.expected is not None:
        rows.append(Row(SPEED, styled(cut_words(expected_words(speed), wide)), 1))
        ends = speed.expected.low, speed.expected.high
        bar = gauge(speed.each_tokens_per_s or 0.0, *ends, top_of(speed, ()), min(60, wide), glyphs)
        rows.append(Row(SPEED, styled((bar, _judged(tick))), 6))
    return rows


def chart_rows(speed: SpeedNow, history: Sequence[float | None], width: int, spare: int, glyphs: Glyphs) -> list[Row]:
    """The speeds as a picture, where so many lines are to spare; none where that is too few for one."""
    rows = min(_MOST_CHART_ROWS, spare - 1)
    if rows < _FEWEST_CHART_ROWS or not any(history):
        return []
    top, wide = top_of(speed, history), min(120, room(width))
    lines = chart(history, top, wide - 10, rows, glyphs)
    scale = [f"{rate(top):>8}  ", *[" " * 10] * (rows - 2), f"{'0':>8}  "]
    return [Row(SPEED, styled((mark, "dim"), (line, "green"))) for mark, line in zip(scale, lines, strict=True)]


def _now(tick: Tick, history: Sequence[float | None], wide: int, glyphs: Glyphs) -> Text:
    words, speed = speed_words(tick), tick.speed
    text = styled((words, f"bold {_judged(tick)}".strip()))
    left = min(60, wide - len(words) - 2)
    if left >= 8 and any(history):  # noqa: PLR2004 (shorter tells nothing)
        text.append("  ").append(sparkline(history, top_of(speed, history), left, glyphs), style="green")
    return text


def speed_words(tick: Tick) -> str:
    """The speed of this moment in words."""
    speed = tick.speed
    if tick.phases.now == "prefill" and not speed.tokens_per_s:
        read = f" at {rate(speed.prompt_tokens_per_s)} tok/s" if speed.prompt_tokens_per_s else ""
        return f"reading a prompt{read}"
    if speed.tokens_per_s is not None:
        each = speed.each_tokens_per_s if (tick.requests.running or 0) > 1 else None
        beside = f" ({rate(each)} each)" if each else ""
        return f"{rate(speed.tokens_per_s) if speed.tokens_per_s else '0'} tok/s{beside}"
    if speed.last_tokens_per_s is not None:
        return f"{rate(speed.last_tokens_per_s)} tok/s in the last answer, by its log"
    return "- tok/s"


def expected_words(speed: SpeedNow) -> str:
    """What one request should get."""
    if speed.expected is None:
        return ""
    ends = f"{rate(speed.expected.low)} to {rate(speed.expected.high)}"
    most = f", ceiling {rate(speed.ceiling)}" if speed.ceiling else ""
    return f"expected {ends}{most} a request"


def cut_words(words: str, width: int) -> str:
    """The words without their last ones where they are too long by these only."""
    return words if len(words) <= width else words.removesuffix(" a request")


def top_of(speed: SpeedNow, history: Sequence[float | None]) -> float:
    """The top of the scale: what is possible, or what was seen where that is more."""
    known = [speed.ceiling, speed.expected.high if speed.expected else None, speed.each_tokens_per_s]
    seen = [value for value in history if value]
    # a server far below its ceiling would draw a flat line
    return max(seen) if seen else max((value for value in known if value), default=1.0)


def _judged(tick: Tick) -> str:
    """The colour of a speed by what was expected; none where several share what is expected of one."""
    speed = tick.speed
    if speed.each_tokens_per_s is None or speed.expected is None or (tick.requests.running or 0) > 1:
        return ""
    if speed.each_tokens_per_s < _FAR * speed.expected.low:
        return "red"
    return "yellow" if speed.each_tokens_per_s < speed.expected.low else "green"


def wall_rows(tick: Tick, width: int) -> list[Row]:
    """What a token's time goes to, the largest part first."""
    wall, phase = tick.wall, tick.phases.now
    if phase == "load":
        return [Row(WALL, styled("loading the model"))]
    if wall is None or not wall.parts:
        return [Row(WALL, styled(("not known yet", "dim")))]
    total, first = sum(part.seconds for part in wall.parts), wall.parts[0]
    name = "not explained by what is known" if first.part == "unexplained" else first.part
    what = "a prompt's token" if wall.per == "prompt_token" else "a token"
    how = "of the" if wall.measured else "of the predicted"
    idle = "when it works: " if phase in ("idle", "queue", "unknown") else ""
    tail = f", {first.share:.0%} {how} {span(total)} of {what}"
    if len(idle + name + tail) > room(width):
        idle, tail = "", f" {first.share:.0%} of {span(total)}"
    words = styled(idle, (name, "bold"), tail)
    rest = [f"{part.part} {part.share:.0%}" for part in wall.parts[1:4] if part.share >= 0.01]  # noqa: PLR2004 (1 %)
    return [Row(WALL, words), *([Row(WALL, styled(("then " + ", ".join(rest), "dim")), 7)] if rest else [])]


def phase_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """What it does now, and the shares of the last minute."""
    phases = tick.phases
    word = PHASE_WORDS.get(phases.now, phases.now)
    shares = [f"{name} {share:.0%}" for name, share in phases.minute.items() if share >= 0.005]  # noqa: PLR2004 (0 %)
    if phases.queued >= 0.005:  # noqa: PLR2004 (0 %)
        shares.append(f"queued {phases.queued:.0%}")
    minute = f"; last minute: {', '.join(shares)}" if shares else ""
    rows = [Row(PHASES, styled((word, f"bold {_STYLES.get(phases.now, '')}".strip()), minute))]
    if shares:
        bar, edge, drawn, long = Text(no_wrap=True, end=""), 0.0, 0, min(60, room(width))
        for name, share in phases.minute.items():
            edge += share
            letter = glyphs.full if name != "idle" else glyphs.parts["free"]
            letter = glyphs.parts["kv"] if name == "prefill" else letter
            bar.append(letter * (round(long * edge) - drawn), style=_STYLES.get(name, ""))
            drawn = round(long * edge)
        rows.append(Row(PHASES, bar, 9))
    return rows


def request_rows(tick: Tick) -> list[Row]:
    """How many, then each."""
    requests = tick.requests
    if requests.running is None:
        return [Row(REQUESTS, styled(("not told", "dim")), 2)]
    waiting = "waiting not told" if requests.waiting is None else f"{requests.waiting:.0f} waiting"
    style = "bold yellow" if requests.waiting else ""
    rows = [Row(REQUESTS, styled(f"{requests.running:.0f} running, ", (waiting, style)), 1)]
    return [*rows, *(Row(REQUESTS, styled(request_words(one)), 8 + at) for at, one in enumerate(requests.each[:16]))]


def request_words(one: RequestNow) -> str:
    """One request in words."""
    prompt = f" of {one.prompt_tokens:,}" if one.prompt_tokens else ""
    if one.phase == "prefill":
        read = f"{one.prompt_read:.0%}" if one.prompt_read is not None else "part"
        return f"slot {one.slot}: reading its prompt, {read}{prompt} tokens"
    speed = f"{rate(one.tokens_per_s)} tok/s, " if one.tokens_per_s is not None else ""
    after = f" after a prompt{prompt}" if prompt else ""
    return f"slot {one.slot}: {speed}{one.tokens:,} token{'' if one.tokens == 1 else 's'}{after}"


def suspicion_rows(tick: Tick, width: int) -> list[Row]:
    """The first cause that is there or suspected, and its number."""
    found = tick.suspicion
    if found is None:
        return [Row(SUSPICION, styled(("judging ...", "dim")))]
    wide = room(width)
    title, *more = wrapped(suspicion_words(found), wide, 3)
    rows = [Row(SUSPICION, styled((title, _KINDS[found.kind])))]
    rows += [Row(SUSPICION, styled((line, _KINDS[found.kind])), 2) for line in more]
    if found.because:
        rows += [Row(SUSPICION, styled(line), 3 + at) for at, line in enumerate(wrapped(found.because, wide, 4))]
    if found.fix:
        rows += [Row(SUSPICION, styled((line, "cyan")), 10 + at) for at, line in enumerate(wrapped(found.fix, wide, 3))]
    if found.command:  # whole on a row of its own: half a line must not look like one to copy
        rows += [Row(SUSPICION, styled((found.command, "cyan")), 10)]
    return rows


def suspicion_words(found: Suspicion) -> str:
    """The title with what it costs."""
    words = f"perhaps: {found.title}" if found.kind == "suspected" else found.title
    if found.speedup and found.speedup > 1.005:  # noqa: PLR2004 (what rounds to 1.00)
        words += f"; without it {found.speedup:.2g} times as fast"
    elif found.cost:
        words += f"; costs {span(found.cost.seconds)} a {found.cost.per.replace('_', ' ')}"
    return f"{words} (and {found.more} more)" if found.more else words
