"""`fit`, `predict` and `plan` never contradict each other about the same model in the same memory."""

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import unslow
from unslow.catalog.models import WellKnown, well_known
from unslow.catalog.quants import find_mix
from unslow.facts.values import GIB

_CARDS = {"GTX 1650": 4, "RTX 3060": 12, "RTX 3090": 24, "RX 7600": 8, "Arc B580": 12, "M3 Max 64GB": 0, "cpu": 0,
          "2x GTX 1650": 8, "2x RTX 3060": 24, "2x RTX 3090": 48}  # fmt: skip
"""With the GiB that they have beside the host's."""
_QUANTS = ("Q8_0", "Q6_K", "Q4_K_M", "Q3_K_M", "IQ2_XXS")
_CONTEXTS = (4096, 8192, 32_768, 65_536)
_FITS = ("fits", "tight", "partly")


@cache
def _models(most_layers: int, most_parameters: float) -> list[WellKnown]:
    every = (m for m in well_known().values() if m.shape.layers <= most_layers and 2e9 < m.parameters < most_parameters)
    return sorted(every, key=lambda model: model.name)


@st.composite
def _questions(draw: st.DrawFn, most_layers: int, most_parameters: float) -> tuple[str, str, str, str, int]:
    """Cards that do not hold it all, and about as much RAM as lets it just run, or just not: the rest is easy."""
    model = draw(st.sampled_from(_models(most_layers, most_parameters)))
    quant, context = draw(st.sampled_from(_QUANTS)), draw(st.sampled_from(_CONTEXTS))
    weights = model.parameters * find_mix(quant).bits_per_weight / 8 / GIB
    card = draw(st.sampled_from([card for card, held in sorted(_CARDS.items()) if held <= weights + 1]))
    spare = draw(st.sampled_from((-0.5, 0.0, 0.25, 0.5, 1.0, 2.0))) * (1 + context / 32_768)
    ram = max(0.5, weights - 0.93 * _CARDS[card] + spare)
    return model.name, quant, card, f"{ram:.2f}GB", context


def _check_agreement(question: tuple[str, str, str, str, int]) -> None:
    """A plan for the asked quant and context, if and only if it fits at least partly, and has a speed."""
    model, quant, device, ram, context = question
    place: dict[str, Any] = {"device": device, "ram": ram, "quant": quant}
    fit = unslow.fit(model, context=context, parallel=1, **place)
    predicted = unslow.predict(model, context=context - 256, **place)
    plan = unslow.plan(model, context=context, **place)
    fits, best = fit.verdict in _FITS, None if plan.recommended is None else plan.options[plan.recommended]
    assert fits == (predicted.decode is not None) == (best is not None), (fit.verdict, predicted.reason, plan.reason)
    assert fits == bool(fit.command)
    if best is None:
        assert "fit" in predicted.reason
        assert "fit" in plan.reason
    else:
        assert best.quant == fit.model.quant
        assert best.context >= context


@given(question=_questions(28, 20e9))
@settings(
    max_examples=12, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@example(("DeepSeek-MoE-16B", "Q8_0", "RTX 5080", "8GB", 8192))
@example(("Llama-3.1-8B", "Q8_0", "RTX 3060", "1GB", 8192))
@example(("Granite-3.1-3B-A800M", "Q8_0", "2x GTX 1650", "1GB", 8192))
@example(("Gemma-3-4B", "Q3_K_M", "M3 Max 64GB", "0.5GB", 65_536))  # shares its memory: --ram says nothing of it
def test_fit_predict_and_plan_agree_whether_a_model_runs(question: tuple[str, str, str, str, int]) -> None:
    _check_agreement(question)


def test_model_that_needs_other_settings_fits_partly_and_names_them(wording) -> None:
    place: dict[str, Any] = {"device": "RTX 4070", "ram": "32GB", "quant": "Q3_K_M"}
    fit = unslow.fit("Llama-3.1-Nemotron-70B", context=65_536, **place)
    assert fit.verdict == "partly"
    assert "-ctk q8_0 -ctv q8_0 -fa on -ub 256" in fit.command
    assert fit.ways[0].command == fit.command
    wording(fit.ways[0].what, tells=("q8_0", "256", "20 of 81"))
    predicted = unslow.predict("Llama-3.1-Nemotron-70B", context=65_280, **place)
    assert predicted.decode
    assert (predicted.settings["kv_type"], predicted.settings["ubatch"]) == ("q8_0", 256)
    wording(predicted.notes, tells="q8_0")


@pytest.mark.real
@given(question=_questions(100, 130e9))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@example(("Qwen3.6-35B-A3B", "Q3_K_M", "RTX 3060", "4.98GB", 8192))  # fits with the smallest micro-batch alone
def test_fit_predict_and_plan_agree_on_any_model(question: tuple[str, str, str, str, int]) -> None:
    """Takes a quarter of an hour."""
    _check_agreement(question)


@pytest.mark.parametrize(
    ("model", "quant", "device", "ram", "flag"),
    [
        ("gpt-oss-120b", None, "RTX 3090", "48GB", "-ncmoe 24"),
        ("glm-4.5-air", "Q4_K_M", "RTX 4090", "64GB", "-ncmoe 35"),
        ("llama-3.3-70b", "Q8_0", "RTX 4090", "64GB", "-ngl 24"),
    ],
)
def test_model_between_ram_and_ram_plus_vram_fits_partly(
    model: str, quant: str | None, device: str, ram: str, flag: str
) -> None:
    fit = unslow.fit(model, device=device, ram=ram, quant=quant)
    assert fit.verdict == "partly"
    assert flag in fit.command
    assert any(flag in way.command for way in fit.ways)


def test_quantized_cache_is_offered_before_small_quants() -> None:
    long = unslow.fit("qwen2.5-14b", context=32_768, device="RTX 3060")
    assert [way.what.split()[0] for way in long.ways] == ["a", "a", "Q3_K_M", "35"]
    assert "with a q8_0 KV cache" in long.ways[1].what
    large = unslow.fit("llama-3.3-70b", quant="Q4_K_M", device="RTX 4090")
    assert [way.what.split()[0] for way in large.ways] == ["42", "IQ2_XXS"]


def test_model_that_does_not_fit_gets_no_command() -> None:
    assert unslow.fit("llama-3.3-70b", device="cpu", ram="16GB").command == ""
