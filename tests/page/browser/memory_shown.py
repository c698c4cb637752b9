"""What a person sees of the memory on a page, and what the server says of it."""

import json
from typing import Any

from unslow.show.units import size

ROWS = """(number) => [...document.querySelectorAll(`#memory-${number} table tbody tr`)].map(
  (row) => [...row.cells].map((cell) => cell.textContent))"""
DRAWN = """(number) => [...document.querySelectorAll(`#answer-${number} svg.drawing`)].filter(
  (svg) => svg.getBoundingClientRect().width).flatMap((svg) => [...svg.querySelectorAll("rect.part")].map(
  (part) => [part.querySelector("title").textContent, part.getBoundingClientRect().width]))"""
THINNEST_PX = 3


def settings_of(tab: Any) -> dict[str, str]:
    """Where every slider stands."""
    values = {}
    for slider in tab.locator("#memory-0 input[type=range]").all():
        values[slider.get_attribute("name")] = json.loads(slider.get_attribute("data-values"))[
            int(slider.input_value())
        ]
    return values


def label_of(slider: Any) -> str:
    """What the place is called at which a slider stands."""
    return str(json.loads(slider.get_attribute("data-labels"))[int(slider.input_value())])


def sentence_of(tab: Any) -> str:
    return str(tab.inner_text("#answer-0 .fits"))


def words_of(said: dict[str, Any]) -> str:
    """The sentence of an answer, without the sign before it."""
    return str(said["summary"].partition(": ")[2] or said["summary"])


def assert_shows(tab: Any, said: dict[str, Any]) -> None:
    """The sentence, the table and the bars of the page are those of an answer of the server."""
    assert words_of(said).casefold() in sentence_of(tab).casefold()
    parts = [(bar["name"], part) for bar in said["bars"] for part in bar["parts"]]
    rows = [row for row in tab.evaluate(ROWS, 0) if row[1] != "total"]
    assert [(row[0], row[2].partition(" of ")[0]) for row in rows] == [(n, size(part["bytes"])) for n, part in parts]
    command = tab.locator("#answer-0 button.copy")
    assert (command.get_attribute("data-copy") if command.count() else "") == said["command"]
    _assert_drawn(tab, [part for _, part in parts if part["bytes"]])


def _assert_drawn(tab: Any, parts: list[dict[str, Any]]) -> None:
    """Every part is drawn; of the same kind, the larger one is as much longer as it is larger."""
    drawn = tab.evaluate(DRAWN, 0)
    assert {name.rpartition(": ")[2].partition(" of ")[0] for name, _ in drawn} == {size(p["bytes"]) for p in parts}
    free = {name: wide for name, wide in drawn if name.startswith("free")}
    assert all(wide >= THINNEST_PX for wide in free.values())
