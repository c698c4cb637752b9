import pytest

from unslow.facts.errors import UserError
from unslow.page.view import Choice, Slider
from unslow.page.what_if.memory_view import (
    cache_choices,
    context_choices,
    layer_choices,
    parse_settings,
    quant_choices,
    slot_choices,
)


def values(choices: tuple[Choice, ...]) -> list[str]:
    return [choice.value for choice in choices]


def test_context_choices_are_powers_of_two_plus_current_and_trained(wording) -> None:
    assert values(context_choices(10_000, 40_960)) == ["2048", "4096", "8192", "10000", "16384", "32768", "40960"]
    assert values(context_choices(512, 1024)) == ["512", "1024"]
    wording([choice.label for choice in context_choices(2048, 4096)], tells=("2,048", "4,096"))


def test_layer_choices_have_every_number(wording) -> None:
    assert values(layer_choices(3)) == ["0", "1", "2", "3"]
    wording([choice.label for choice in layer_choices(2)], tells="1 of 2")


def test_cache_types_and_quants_are_ordered_by_size() -> None:
    sizes = {"f16": 2.0, "q8_0": 1.06, "q4_0": 0.56, "q5_1": 0.75}
    assert values(cache_choices("q5_1/f16", ["f16", "q8_0", "q4_0"], sizes)) == ["q4_0", "q5_1/f16", "q8_0", "f16"]
    names = values(quant_choices("UD-Q4_K_XL", 4.9))
    assert names.index("Q3_K_M") < names.index("UD-Q4_K_XL") < names.index("Q5_K_M") < names.index("BF16")


def test_slot_choices_include_the_current_number(wording) -> None:
    assert values(slot_choices(3)) == ["1", "2", "3", "4", "8", "16"]
    wording([choice.label for choice in slot_choices(4, shared=True)])


SLIDERS = (
    Slider(knob="context", label="", value="4096", choices=context_choices(4096, 8192)),
    Slider(knob="kv_type", label="", value="f16", choices=cache_choices("f16", ["q8_0"], {})),
    Slider(knob="gpu_layers", label="", value="60", choices=layer_choices(60)),
)


def test_unasked_settings_keep_their_value() -> None:
    assert parse_settings(SLIDERS, {"kv_type": "q8_0"}) == {"context": "4096", "kv_type": "q8_0", "gpu_layers": "60"}


def test_context_between_two_choices_is_accepted() -> None:
    assert parse_settings(SLIDERS, {"context": "5000"})["context"] == "5000"
    assert parse_settings(SLIDERS, {"context": "6k"})["context"] == "6144"


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": "4"},
        {"context": "many"},
        {"context": "1"},
        {"context": "9" * 30},
        {"kv_type": "q9"},
        {"gpu_layers": "61"},
        {"gpu_layers": "-1"},
    ],
)
def test_invalid_slider_setting_is_a_user_error(settings: dict[str, str], wording) -> None:
    with pytest.raises(UserError) as refused:
        parse_settings(SLIDERS, settings)
    wording(refused.value.message, refused.value.hint, tells=tuple(settings))
