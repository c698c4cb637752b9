import pytest

from unslow.think.fit.answers import rule_of_thumb


@pytest.mark.parametrize(
    ("quant", "billions"), [("Q4_K_M", 43.75), ("Q8_0", 87.5), ("F16", 175.0), ("IQ2_XXS", 21.875), ("BF16", 175.0)]
)
def test_it_says_what_the_guides_say(quant: str, billions: float) -> None:
    rule = rule_of_thumb(70 * 10**9, quant, None, 1)
    assert rule is not None
    assert rule.says_bytes == pytest.approx(billions * 1e9)
    assert rule.says_fits is None


def test_it_compares_with_the_room() -> None:
    rule = rule_of_thumb(8 * 10**9, "Q4_K_M", 24 * 10**9, 9 * 10**9)
    assert rule is not None
    assert rule.says_fits is True
    assert rule.needs_bytes == 9 * 10**9


@pytest.mark.parametrize(("parameters", "quant"), [(0, "Q4_K_M"), (10**9, "?")])
def test_it_is_silent_without_numbers(parameters: int, quant: str) -> None:
    assert rule_of_thumb(parameters, quant, None, 1) is None
