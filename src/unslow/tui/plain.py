"""The same without a screen: a line at every interval, in words, for logs, pipes and screen readers."""

from collections.abc import Sequence

from unslow.show._clean import safe
from unslow.think.view.live import Tick
from unslow.tui.glyphs import ASCII, Glyphs
from unslow.tui.lines import NOBODY, ONLY_LOOKS, panel_rows
from unslow.tui.machine_panels import cpu_words, device_words
from unslow.tui.panels import PHASE_WORDS, expected_words, speed_words, suspicion_words

_MOST_COLUMNS = 500


class PlainLines:
    """Says what is new: names, expectations and suspicions once, numbers at every tick."""

    def __init__(self, glyphs: Glyphs = ASCII) -> None:
        self._glyphs = glyphs
        self._said: dict[str, str] = {}

    def lines(self, tick: Tick) -> list[str]:
        """The lines of one tick."""
        if not tick.servers:
            return self._new("server", NOBODY)
        named = f"{tick.server.model}, {tick.server.runtime}, {tick.server.url}. {ONLY_LOOKS}"
        lines = self._new("server", f"watching {named}") + self._new("state", self._state(tick))
        lines += self._new("expected", expected_words(tick.speed))
        if tick.speed.missing is not None:
            missing = tick.speed.missing
            lines += self._new("missing", f"no speed: {missing.why}. To get it: {missing.how_to_get}.")
        if tick.suspicion is not None:
            because = f". {tick.suspicion.because}" if tick.suspicion.because else ""
            lines += self._new("suspicion", f"suspicion: {suspicion_words(tick.suspicion)}{because}")
        for number, note in enumerate(tick.notes):
            lines += self._new(f"note {number}", note)
        return [*lines, safe(self._numbers(tick))[:_MOST_COLUMNS]]

    def _new(self, about: str, words: str) -> list[str]:
        """The words, where they were not the last that were said of this."""
        if self._said.get(about, "") == words:
            return []
        self._said[about] = words
        return [safe(words).replace("\n", " ")[:_MOST_COLUMNS]] if words else []

    def _state(self, tick: Tick) -> str:
        state = tick.server.state
        if state in ("answers", "gone"):  # of one that is gone a note tells
            return "it answers again" if "state" in self._said and state == "answers" else ""
        return tick.server.because or {"loading": "the model is still loading"}.get(state, "it does not answer")

    def _numbers(self, tick: Tick) -> str:
        if tick.server.state == "gone":
            return f"{tick.at[11:19]} gone"
        pieces = [PHASE_WORDS.get(tick.phases.now, tick.phases.now), speed_words(tick)]
        if tick.requests.running is not None:
            pieces.append(f"{tick.requests.running:.0f} running")
        if tick.requests.waiting:
            pieces.append(f"{tick.requests.waiting:.0f} waiting")
        if tick.wall and tick.wall.parts and tick.phases.now in ("decode", "prefill"):
            pieces.append(f"wall {tick.wall.parts[0].part} {tick.wall.parts[0].share:.0%}")
        pieces += [device_words(device, self._glyphs) for device in tick.devices]
        pieces.append(cpu_words(tick.host))
        return f"{tick.at[11:19]} " + ", ".join(piece for piece in pieces if piece)


def whole(tick: Tick, history: Sequence[float | None], width: int, glyphs: Glyphs) -> str:
    """Everything that is known of one moment, each panel with its label."""
    lines, before = [], ""
    for row in panel_rows(tick, history, width, glyphs):
        label = row.panel if row.panel != before else ""
        before = row.panel
        lines.append(f"{label:<11}{row.text.plain}".rstrip())
    title = f"{tick.server.model} {tick.server.runtime} {tick.server.url}".strip()
    return safe("\n".join([*([title] if title else []), *lines, ONLY_LOOKS]))
