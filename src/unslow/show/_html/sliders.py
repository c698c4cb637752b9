"""Sliders: each a real range input whose places and their words travel with it."""

from collections.abc import Sequence

import msgspec

from unslow.show._clean import safe, safe_json
from unslow.show._html.markup import NOTHING, Markup, tag
from unslow.think.view.report import Slider


def sliders(shown: Sequence[Slider], number: int) -> Markup:
    """All sliders of a subject; one with a single place can't be moved and is left out."""
    movable = [slider for slider in shown if len(slider.choices) > 1]
    if not movable:
        return NOTHING
    return tag(
        "form",
        *(_slider(slider, number) for slider in movable),
        class_="sliders",
        data_subject=number,
        aria_label="What if the settings were different",
        autocomplete="off",
    )


def _slider(slider: Slider, number: int) -> Markup:
    name = f"memory-{number}-{slider.knob}"
    values = [choice.value for choice in slider.choices]
    labels = [safe(choice.label) for choice in slider.choices]
    place = values.index(slider.value) if slider.value in values else 0
    entry = tag(
        "input",
        type="range",
        id=name,
        name=slider.knob,
        min=0,
        max=len(values) - 1,
        step=1,
        value=place,
        data_values=_json(values),
        data_labels=_json(labels),
        aria_valuetext=labels[place],
    )
    words = tag("output", labels[place], for_=name)
    return tag("div", tag("label", safe(slider.label), for_=name), entry, words, class_="slider")


def _json(texts: Sequence[str]) -> str:
    return safe_json(msgspec.json.encode(texts).decode())
