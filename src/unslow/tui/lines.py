"""The whole screen as lines of text: a title, the panels that fit, what it does and the keys."""

from collections.abc import Sequence

from rich.text import Text

from unslow.think.view.live import Tick
from unslow.tui.glyphs import Glyphs
from unslow.tui.machine_panels import device_rows, host_rows, memory_rows, server_rows
from unslow.tui.panels import SPEED, chart_rows, phase_rows, request_rows, speed_rows, suspicion_rows, wall_rows
from unslow.tui.rows import Row, cut, fitted, labelled, room, styled, wrapped

ONLY_LOOKS = "It only looks: no prompt is sent."
KEYS = "q quit  p pause  ? help"
NOBODY = "No server of a model was found. Start one, such as llama-server or Ollama; it is seen within a few seconds."
_SHORT = {
    "Devices": "GPU", "Memory": "Mem", "Requests": "Reqs", "Suspicion": "Why", "Phases": "Phase", "Servers": "Srv",
}  # fmt: skip
HELP = """unslow watch shows a running server as it works. It sends no prompt: it reads what the server tells of itself
(/slots, /metrics), its log, the drivers and the kernel.

Speed      tokens per second of all requests now; what one request should get here, and the ceiling of the memory
Wall       what a token's time goes to, as measured where a request is seen, else as predicted
Phases     idle, prefill (reading a prompt), decode (answering), queue, load: now and over the last minute
Requests   how many run and wait, and each one
Suspicion  the first cause that is found or suspected by what is seen; `unslow` measures and says more
Devices    GPUs: busy, clock, power, temperature, memory; why the driver holds one back
Memory     weights, KV cache, buffers, other programs, free
Host       processors, memory, swapping, disks

q, Ctrl-C quit    p pause the screen    up, down, left, right choose a server    ? this page"""


def screen_lines(
    tick: Tick, history: Sequence[float | None], size: tuple[int, int], glyphs: Glyphs, *, paused: bool = False
) -> list[Text]:
    """Exactly as many lines as the screen has."""
    width, height = size
    title, foot = _title(tick, width, glyphs, paused=paused), _foot(tick, width, glyphs)
    rows = fitted(panel_rows(tick, history, width, glyphs), height - 2)
    drawn = chart_rows(tick.speed, history, width, height - 2 - len(rows), glyphs)
    after = max((at for at, row in enumerate(rows) if row.panel == SPEED), default=-1) + 1
    rows[after:after] = drawn
    if width < 60:  # noqa: PLR2004 (where labels are short)
        rows = [row._replace(panel=_SHORT.get(row.panel, row.panel)) for row in rows]
    lines = [title, *labelled(rows, width, glyphs.ellipsis)][: max(1, height - 1)]
    blank = [Text("", end="")] * (height - 1 - len(lines))
    return [*lines, *blank, foot][:height]


def panel_rows(tick: Tick, history: Sequence[float | None], width: int, glyphs: Glyphs) -> list[Row]:
    """Every panel in its order."""
    if not tick.servers:
        return [Row("Servers", styled(line)) for line in wrapped(NOBODY, room(width), 6)]
    rows = _state_rows(tick, width)
    rows += speed_rows(tick, history, width, glyphs) + wall_rows(tick, width)
    rows += suspicion_rows(tick, width) + phase_rows(tick, width, glyphs) + request_rows(tick)
    rows += device_rows(tick, width, glyphs) + memory_rows(tick, width, glyphs) + host_rows(tick)
    return rows + server_rows(tick, glyphs) + _note_rows(tick, width)


def _state_rows(tick: Tick, width: int) -> list[Row]:
    """What is wrong with the server, where it does not answer."""
    server = tick.server
    if server.state in ("answers", "none"):
        return []
    words = {"loading": "the model is still loading", "gone": "the server went away; looking for it"}
    text = words.get(server.state) or server.because or "it does not answer"
    return [Row("Server", styled((line, "bold yellow"))) for line in wrapped(text, room(width), 2)]


def _note_rows(tick: Tick, width: int) -> list[Row]:
    return [Row("Notes", styled((line, "dim")), 9) for note in tick.notes for line in wrapped(note, room(width), 2)]


def _title(tick: Tick, width: int, glyphs: Glyphs, *, paused: bool) -> Text:
    server, minutes = tick.server, int(tick.seconds)
    clock = "paused" if paused else f"{minutes // 3600}:{minutes // 60 % 60:02}:{minutes % 60:02}"
    where = server.url.partition("://")[2]
    number = f"{tick.chosen + 1}/{len(tick.servers)} " if len(tick.servers) > 1 else ""
    name = " ".join(word for word in (f"unslow watch {number}".rstrip(), server.model, server.runtime, where) if word)
    left = cut(styled((name, "bold")), width - len(clock) - 1, glyphs.ellipsis)
    left.append(" " * max(1, width - left.cell_len - len(clock))).append(clock)
    left.stylize("reverse")
    return left


def _foot(tick: Tick, width: int, glyphs: Glyphs) -> Text:
    more = "  arrows choose" if len(tick.servers) > 1 else ""
    words = f"{ONLY_LOOKS}  {KEYS}{more}"
    if len(words) > width:
        words = f"Only looks. {KEYS}{more}"
    return cut(styled((words, "dim")), width, glyphs.ellipsis)


def help_lines(size: tuple[int, int], glyphs: Glyphs) -> list[Text]:
    """The page of help, cut to the screen."""
    width, height = size
    lines = []
    for line in HELP.splitlines():
        label, text = (line[:11], line[11:]) if line[9:11] == "  " else ("", line)
        for at, piece in enumerate(wrapped(text, max(10, width - len(label)), 4)):
            lines.append(styled((label if at == 0 else " " * len(label), "bold"), piece))
    return [cut(line, width, glyphs.ellipsis) for line in lines[: height - 1]] + [styled((KEYS, "dim"))]
