"""What each panel says, from the numbers of a moment, and the whole screen as lines of text."""

from collections.abc import Sequence

from rich.text import Text

from unslow.live.rows import (
    Glyphs,
    Row,
    chart,
    cut_line,
    gauge,
    label_rows,
    stack_parts,
    style_text,
    text_columns,
    wrap_words,
)
from unslow.live.tick import DeviceNow, HostNow, RequestNow, SpeedNow, Suspicion, Tick
from unslow.show.units import GIB, rate, size, span

SPEED, WALL, PHASES, REQUESTS, SUSPICION = "Speed", "Time", "Phases", "Requests", "Cause"
DEVICES, MEMORY, HOST, SERVERS = "Devices", "Memory", "Host", "Servers"
ONLY_LOOKS = "Read-only: sends no prompts."
KEYS = "q quit  p pause  ? help"
NO_SERVER = "No model server found. Start one, such as llama-server or Ollama; it appears here within a few seconds."
PHASE_WORDS = {"busy": "busy, phase not reported", "unknown": "not reported"}
HELP = """unslow watch shows a running server live. It sends no prompts: it reads the server's endpoints
(/slots, /metrics), its log, the drivers and the kernel.

Speed      tok/s of all requests now; the expected range and the bandwidth ceiling of one request
Time       where the time of a token goes: measured if a request is running, else predicted
Phases     idle, queue, load, prefill (reading the prompt), decode: now and over the last minute
Requests   running and waiting requests, then each one
Cause      the first cause found or suspected so far; `unslow` measures and says more
Devices    GPUs: utilization, clock, power, temperature, memory, throttle reasons
Memory     weights, KV cache, buffers, other programs, free
Host       CPUs, RAM, swap, disks

q, Ctrl-C quit    p pause    up, down, left, right switch server    ? this page"""
_SHORT = {"Devices": "GPU", "Memory": "Mem", "Requests": "Reqs", "Phases": "Phase", "Servers": "Srv"}
_FAR = 0.8  # Of the low end of what is expected: a speed below it is shown as bad
_FEWEST_CHART_ROWS, _MOST_CHART_ROWS = 3, 8
_PHASE_STYLES = {"decode": "green", "prefill": "cyan", "queue": "yellow", "load": "yellow", "idle": "dim"}
_KINDS = {"found": "bold red", "suspected": "yellow", "nothing": "green", "cannot_tell": ""}
_PART_STYLES = {
    "weights": "blue", "kv": "cyan", "compute": "magenta", "stranger": "yellow", "reserve": "dim", "free": "dim",
    "lacking": "bold red",
}  # fmt: skip
_GHZ, _MB = 1e9, 1e6
_SMALL_SHARE = 0.002  # Of a memory: a part that is smaller has no words of its own


def screen_lines(
    tick: Tick, history: Sequence[float | None], size: tuple[int, int], glyphs: Glyphs, *, paused: bool = False
) -> list[Text]:
    """Exactly as many lines as the screen has."""
    width, height = size
    more = "  arrows switch server" if len(tick.servers) > 1 else ""
    words = f"{ONLY_LOOKS}  {KEYS}{more}"
    if len(words) > width:
        words = f"Read-only. {KEYS}{more}"
    server, seconds = tick.server, int(tick.seconds)
    clock = "paused" if paused else f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    number = f"{tick.chosen + 1}/{len(tick.servers)} " if len(tick.servers) > 1 else ""
    named = (f"unslow watch {number}".rstrip(), server.model, server.runtime, server.url.partition("://")[2])
    name = style_text((" ".join(filter(None, named)), "bold"))
    title = cut_line(name, width - len(clock) - 1, glyphs.ellipsis)
    title.append(" " * max(1, width - title.cell_len - len(clock))).append(clock)
    title.stylize("reverse")
    foot = cut_line(style_text((words, "dim")), width, glyphs.ellipsis)
    every = panel_rows(tick, history, width, glyphs)
    # Where they do not fit, those of the highest rank are left out first
    kept = sorted(range(len(every)), key=lambda at: (every[at].rank, at))[: max(0, height - 2)]
    rows = [every[at] for at in sorted(kept)]
    drawn = chart_rows(tick.speed, history, width, height - 2 - len(rows), glyphs)
    after = max((at for at, row in enumerate(rows) if row.panel == SPEED), default=-1) + 1
    rows[after:after] = drawn
    if width < 60:  # noqa: PLR2004 (where labels are short)
        rows = [row._replace(panel=_SHORT.get(row.panel, row.panel)) for row in rows]
    lines = [title, *label_rows(rows, width, glyphs.ellipsis)][: max(1, height - 1)]
    blank = [Text("", end="")] * (height - 1 - len(lines))
    return [*lines, *blank, foot][:height]


def help_lines(size: tuple[int, int], glyphs: Glyphs) -> list[Text]:
    """The page of help, cut to the screen."""
    width, height = size
    lines = []
    for line in HELP.splitlines():
        label, text = (line[:11], line[11:]) if line[9:11] == "  " else ("", line)
        for at, piece in enumerate(wrap_words(text, max(10, width - len(label)), 4)):
            lines.append(style_text((label if at == 0 else " " * len(label), "bold"), piece))
    return [cut_line(line, width, glyphs.ellipsis) for line in lines[: height - 1]] + [style_text((KEYS, "dim"))]


def panel_rows(tick: Tick, history: Sequence[float | None], width: int, glyphs: Glyphs) -> list[Row]:
    """Every panel in its order."""
    if not tick.servers:
        return [Row("Servers", style_text(line)) for line in wrap_words(NO_SERVER, text_columns(width), 6)]
    rows, server = [], tick.server
    if server.state not in ("answers", "none"):
        words = {"loading": "the model is still loading", "gone": "the server is gone; searching for it"}
        text = words.get(server.state) or server.because or "no response"
        rows = [Row("Server", style_text((line, "bold yellow"))) for line in wrap_words(text, text_columns(width), 2)]
    rows += speed_rows(tick, history, width, glyphs) + wall_rows(tick, width)
    rows += suspicion_rows(tick, width) + phase_rows(tick, width, glyphs) + request_rows(tick)
    rows += device_rows(tick, width, glyphs) + memory_rows(tick, width, glyphs) + host_rows(tick)
    notes = [line for note in tick.notes for line in wrap_words(note, text_columns(width), 2)]
    return rows + server_rows(tick, glyphs) + [Row("Notes", style_text((line, "dim")), 9) for line in notes]


def speed_rows(tick: Tick, history: Sequence[float | None], width: int, glyphs: Glyphs) -> list[Row]:
    """Tokens per second now and over the last minutes, against what is expected."""
    speed, wide, words = tick.speed, text_columns(width), speed_words(tick)
    now = style_text((words, f"bold {_speed_style(tick)}".strip()))
    left = min(60, wide - len(words) - 2)
    if left >= 8 and any(history):  # noqa: PLR2004 (shorter tells nothing)
        now.append("  ").append(chart(history, top_of(speed, history), left, 1, glyphs)[0], style="green")
    rows = [Row(SPEED, now)]
    if speed.missing is not None:
        text = f"{speed.missing.why}. To get it: {speed.missing.how_to_get}."
        rows += [Row(SPEED, style_text((line, "yellow")), 2) for line in wrap_words(text, wide, 3)]
    if speed.expected is not None:
        expected = expected_words(speed)
        expected = expected if len(expected) <= wide else expected.replace(" per request", "")
        rows.append(Row(SPEED, style_text(expected), 1))
        ends = speed.expected.low, speed.expected.high
        bar = gauge(speed.each_tokens_per_s or 0.0, *ends, top_of(speed, ()), min(60, wide), glyphs)
        rows.append(Row(SPEED, style_text((bar, _speed_style(tick))), 6))
    return rows


def chart_rows(speed: SpeedNow, history: Sequence[float | None], width: int, spare: int, glyphs: Glyphs) -> list[Row]:
    """The speeds as a picture, where so many lines are to spare; none where that is too few for one."""
    rows = min(_MOST_CHART_ROWS, spare - 1)
    if rows < _FEWEST_CHART_ROWS or not any(history):
        return []
    top, wide = top_of(speed, history), min(120, text_columns(width))
    lines = chart(history, top, wide - 10, rows, glyphs)
    scale = [f"{rate(top):>8}  ", *[" " * 10] * (rows - 2), f"{'0':>8}  "]
    return [Row(SPEED, style_text((mark, "dim"), (line, "green"))) for mark, line in zip(scale, lines, strict=True)]


def speed_words(tick: Tick) -> str:
    """The speed of this moment in words."""
    speed = tick.speed
    if tick.phases.now == "prefill" and not speed.tokens_per_s:
        return f"prefill {rate(speed.prompt_tokens_per_s)} tok/s" if speed.prompt_tokens_per_s else "prefill"
    if speed.tokens_per_s is not None:
        each = speed.each_tokens_per_s if (tick.requests.running or 0) > 1 else None
        beside = f" ({rate(each)} each)" if each else ""
        return f"{rate(speed.tokens_per_s) if speed.tokens_per_s else '0'} tok/s{beside}"
    if speed.last_tokens_per_s is not None:
        return f"{rate(speed.last_tokens_per_s)} tok/s in the last response (from the log)"
    return "- tok/s"


def expected_words(speed: SpeedNow) -> str:
    """What one request should get."""
    if speed.expected is None:
        return ""
    ends = f"{rate(speed.expected.low)} to {rate(speed.expected.high)}"
    most = f", ceiling {rate(speed.ceiling)}" if speed.ceiling else ""
    return f"expected {ends} tok/s per request{most}"


def top_of(speed: SpeedNow, history: Sequence[float | None]) -> float:
    """The top of the scale: what is possible, or what was seen where that is more."""
    known = [speed.ceiling, speed.expected.high if speed.expected else None, speed.each_tokens_per_s]
    seen = [value for value in history if value]
    # a server far below its ceiling would draw a flat line
    return max(seen) if seen else max((value for value in known if value), default=1.0)


def _speed_style(tick: Tick) -> str:
    """No colour if several requests share the speed that is expected of one."""
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
        return [Row(WALL, style_text("loading the model"))]
    if wall is None or not wall.parts:
        return [Row(WALL, style_text(("not known yet", "dim")))]
    total, first = sum(part.seconds for part in wall.parts), wall.parts[0]
    what = "prompt token" if wall.per == "prompt_token" else "token"
    how = "of the" if wall.measured else "of the predicted"
    idle = "when busy: " if phase in ("idle", "queue", "unknown") else ""
    tail = f", {first.share:.0%} {how} {span(total)} per {what}"
    if len(idle + first.part + tail) > text_columns(width):
        idle, tail = "", f" {first.share:.0%} of {span(total)}"
    words = style_text(idle, (first.part, "bold"), tail)
    rest = [f"{part.part} {part.share:.0%}" for part in wall.parts[1:4] if part.share >= 0.01]  # noqa: PLR2004 (1 %)
    return [Row(WALL, words), *([Row(WALL, style_text(("then " + ", ".join(rest), "dim")), 7)] if rest else [])]


def suspicion_rows(tick: Tick, width: int) -> list[Row]:
    """The first cause that is there or suspected, and its number."""
    found = tick.suspicion
    if found is None:
        return [Row(SUSPICION, style_text(("analyzing ...", "dim")))]
    wide = text_columns(width)
    title = wrap_words(suspicion_words(found), wide, 3)
    rows = [Row(SUSPICION, style_text((line, _KINDS[found.kind])), 2 if at else 0) for at, line in enumerate(title)]
    if found.because:
        rows += [Row(SUSPICION, style_text(line), 3 + at) for at, line in enumerate(wrap_words(found.because, wide, 4))]
    fix = wrap_words(found.fix, wide, 3) if found.fix else []
    rows += [Row(SUSPICION, style_text((line, "cyan")), 10 + at) for at, line in enumerate(fix)]
    if found.command:  # whole on a row of its own: half a line must not look like one to copy
        rows += [Row(SUSPICION, style_text((found.command, "cyan")), 10)]
    return rows


def suspicion_words(found: Suspicion) -> str:
    """The title with what it costs."""
    words = f"possibly: {found.title}" if found.kind == "suspected" else found.title
    if found.speedup and found.speedup > 1.005:  # noqa: PLR2004 (what rounds to 1.00)
        words += f"; {found.speedup:.2g}x as fast without it"
    elif found.cost:
        words += f"; costs {span(found.cost.seconds)} per {found.cost.per.replace('_', ' ')}"
    return f"{words} (and {found.more} more)" if found.more else words


def phase_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """What it does now, and the shares of the last minute."""
    phases = tick.phases
    word = PHASE_WORDS.get(phases.now, phases.now)
    shares = [f"{name} {share:.0%}" for name, share in phases.minute.items() if share >= 0.005]  # noqa: PLR2004 (0 %)
    if phases.queued >= 0.005:  # noqa: PLR2004 (0 %)
        shares.append(f"queued {phases.queued:.0%}")
    minute = f"; last minute: {', '.join(shares)}" if shares else ""
    rows = [Row(PHASES, style_text((word, f"bold {_PHASE_STYLES.get(phases.now, '')}".strip()), minute))]
    if shares:
        bar, edge, drawn, long = Text(no_wrap=True, end=""), 0.0, 0, min(60, text_columns(width))
        for name, share in phases.minute.items():
            edge += share
            letter = {"idle": glyphs.parts["free"], "prefill": glyphs.parts["kv"]}.get(name, glyphs.full)
            bar.append(letter * (round(long * edge) - drawn), style=_PHASE_STYLES.get(name, ""))
            drawn = round(long * edge)
        rows.append(Row(PHASES, bar, 9))
    return rows


def request_rows(tick: Tick) -> list[Row]:
    """How many, then each."""
    requests = tick.requests
    if requests.running is None:
        return [Row(REQUESTS, style_text(("not reported", "dim")), 2)]
    waiting = "queue not reported" if requests.waiting is None else f"{requests.waiting:.0f} waiting"
    style = "bold yellow" if requests.waiting else ""
    rows = [Row(REQUESTS, style_text(f"{requests.running:.0f} running, ", (waiting, style)), 1)]
    rows += [Row(REQUESTS, style_text(request_words(one)), 8 + at) for at, one in enumerate(requests.each[:16])]
    return rows


def request_words(one: RequestNow) -> str:
    """One request in words."""
    prompt = f" of {one.prompt_tokens:,}" if one.prompt_tokens else ""
    if one.phase == "prefill":
        read = f"{one.prompt_read:.0%}" if one.prompt_read is not None else "part"
        return f"slot {one.slot}: prefill, {read}{prompt} tokens"
    speed = f"{rate(one.tokens_per_s)} tok/s, " if one.tokens_per_s is not None else ""
    after = f" after a prompt{prompt}" if prompt else ""
    return f"slot {one.slot}: {speed}{one.tokens:,} token{'' if one.tokens == 1 else 's'}{after}"


def device_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """A row for each GPU, and one more where the driver holds it back."""
    rows: list[Row] = []
    for device in tick.devices:
        first, *more = wrap_words(device_words(device, glyphs), text_columns(width), 2)
        rows.append(Row(DEVICES, style_text(first), 1 if not rows else 3))
        rows += [Row(DEVICES, style_text(line), 3) for line in more]
        if device.reasons:
            words = ", ".join(reason.replace("_", " ") for reason in device.reasons)
            rows.append(Row(DEVICES, style_text((f"throttled: {words}", "bold yellow")), 2))
    return rows or [Row(DEVICES, style_text(("no GPU detected", "dim")), 11)]


def device_words(device: DeviceNow, glyphs: Glyphs) -> str:
    """One GPU in words; what the driver does not tell is left out."""
    limit = f" of {device.power_limit_w:.0f}" if device.power_limit_w else ""
    total = f" of {device.vram_total_bytes / GIB:.1f}" if device.vram_total_bytes else ""
    pieces = (
        f"busy {device.busy:.0%}" if device.busy is not None else "",
        f"{device.clock_hz / _GHZ:.2f} GHz" if device.clock_hz else "",
        f"{device.power_w:.0f}{limit} W" if device.power_w is not None else "",
        f"{device.temperature_c:.0f} {glyphs.degrees}" if device.temperature_c is not None else "",
        f"VRAM {device.vram_used_bytes / GIB:.1f}{total} GiB" if device.vram_used_bytes is not None else "",
    )
    return f"{device.name}: {', '.join(filter(None, pieces)) or 'no data from the driver'}"


def memory_rows(tick: Tick, width: int, glyphs: Glyphs) -> list[Row]:
    """For each memory what is in it, and a bar."""
    rows: list[Row] = []
    for bar in tick.memory:
        total = bar.capacity_bytes or 1  # the parts that are worth a word
        parts = [p for p in bar.parts if p.bytes >= _SMALL_SHARE * total or p.kind in ("weights", "free")]
        words = f"{bar.name} {size(total)}: {', '.join(f'{part.name} {size(part.bytes)}' for part in parts)}"
        first, *more = wrap_words(words, text_columns(width), 3)
        rows.append(Row(MEMORY, style_text(first), 2 if not rows else 4))
        rows += [Row(MEMORY, style_text(line), 5) for line in more]
        text = Text(no_wrap=True, end="")
        for kind, stretch in stack_parts([(p.kind, p.bytes) for p in bar.parts], min(60, text_columns(width)), glyphs):
            text.append(stretch, style=_PART_STYLES[kind])
        rows.append(Row(MEMORY, text, 8))
    return rows


def host_rows(tick: Tick) -> list[Row]:
    """The processors, then memory, swap and disks."""
    host = tick.host
    rows = [Row(HOST, style_text(cpu_words(host)), 1)] if host.busy_cpus is not None else []
    if host.throttled:
        throttled = f"throttled by its CPU quota {host.throttled:.0%} of the time"
        rows.append(Row(HOST, style_text((throttled, "bold yellow")), 2))
    if words := io_words(host):
        swaps = (host.swap_in_bytes_per_s or 0) > _MB
        rows.append(Row(HOST, style_text((words, "bold yellow" if swaps else "")), 5))
    return rows


def cpu_words(host: HostNow) -> str:
    """Who uses the processors."""
    if host.busy_cpus is None:
        return ""
    used = {"server": host.own_cpus, "others": host.others_cpus}
    who = [f"{name} {cpus:.1f}" for name, cpus in used.items() if cpus is not None]
    of = f" of {host.cpus}" if host.cpus else ""
    return f"{host.busy_cpus:.1f}{of} CPUs busy" + (f" ({', '.join(who)})" if who else "")


def io_words(host: HostNow) -> str:
    """Memory that is left, swapping and reading."""
    pieces = []
    if host.ram_available_bytes is not None:
        pieces.append(f"RAM {size(host.ram_available_bytes)} available")
    if host.swap_in_bytes_per_s is not None:
        back, out = host.swap_in_bytes_per_s / _MB, (host.swap_out_bytes_per_s or 0) / _MB
        pieces.append(f"swap in {back:.0f}, out {out:.0f} MB/s" if back + out >= 1 else "no swapping")
    if host.disk_read_bytes_per_s is not None:
        pieces.append(f"disk reads {host.disk_read_bytes_per_s / _MB:.0f} MB/s")
    return ", ".join(pieces)


def server_rows(tick: Tick, glyphs: Glyphs) -> list[Row]:
    """All servers, where there are several."""
    if len(tick.servers) < 2:  # noqa: PLR2004 (one needs no list)
        return []
    rows = []
    for at, name in enumerate(tick.servers):
        mark = glyphs.chosen if at == tick.chosen else " "
        rank = 3 if abs(at - tick.chosen) <= 1 else 12
        rows.append(Row(SERVERS, style_text((f"{mark} {name}", "bold" if at == tick.chosen else "")), rank))
    return rows
