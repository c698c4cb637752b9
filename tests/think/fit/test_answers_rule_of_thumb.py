import pytest

from unslow.think.fit.answers import rule_of_thumb


@pytest.mark.parametrize(
    ("quant", "billions"), [("Q4_K_M", 43.75), ("Q8_0", 87.5), ("F16", 175.0), ("IQ2_XXS", 21.875), ("BF16", 175.0)]
)
def test_rule_of_thumb_matches_the_guides(quant: str, billions: float) -> None:
    rule = rule_of_thumb(70 * 10**9, quant, None, 1)
    assert rule is not None
    assert rule.says_bytes == pytest.approx(billions * 1e9)
    assert rule.says_fits is None


def test_rule_of_thumb_is_compared_with_free_memory() -> None:
    rule = rule_of_thumb(8 * 10**9, "Q4_K_M", 24 * 10**9, 9 * 10**9)
    assert rule is not None
    assert rule.says_fits is True
    assert rule.needs_bytes == 9 * 10**9


@pytest.mark.parametrize(("parameters", "quant"), [(0, "Q4_K_M"), (10**9, "?")])
def test_rule_of_thumb_needs_parameters_and_quant(parameters: int, quant: str) -> None:
    assert rule_of_thumb(parameters, quant, None, 1) is None
