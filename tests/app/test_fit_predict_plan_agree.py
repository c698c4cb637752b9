"""`fit`, `predict` and `plan` never contradict each other about the same model in the same memory."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import unslow
from unslow.catalog.models import well_known

_MODELS = sorted(m.name for m in well_known().values() if m.shape.layers <= 48 and not m.shape.state)
"""Those whose buffers are laid out quickly."""
_CARDS = ("RTX 3060", "RTX 4070", "RTX 3090", "RTX 5090", "RX 7900 XTX", "Arc B580", "M3 Max 64GB")
_QUANTS = ("Q8_0", "Q6_K", "Q4_K_M", "Q3_K_M", "IQ2_XXS")
_RAM = ("8GB", "16GB", "24GB", "32GB", "48GB", "64GB", "96GB", "128GB")
_FITS = ("fits", "tight", "partly")


@given(
    model=st.sampled_from(_MODELS),
    quant=st.sampled_from(_QUANTS),
    device=st.sampled_from(_CARDS) | st.sampled_from(_CARDS[:6]).map("2x {}".format),
    ram=st.sampled_from(_RAM),
    context=st.sampled_from((4096, 8192, 32_768)),
)
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@example("Command-A", "Q4_K_M", "RTX 4090", "64GB", 8192)
@example("DeepSeek-MoE-16B", "Q8_0", "RTX 5080", "8GB", 8192)
@example("Llama-3.1-8B", "Q8_0", "RTX 3060", "1GB", 8192)
def test_they_agree_on_whether_it_runs(model: str, quant: str, device: str, ram: str, context: int) -> None:
    place: dict[str, Any] = {"device": device, "ram": ram, "quant": quant}
    fit = unslow.fit(model, context=context, parallel=1, **place)
    predicted = unslow.predict(model, context=context - 256, **place)
    plan = unslow.plan(model, context=context, **place)
    fits = fit.verdict in _FITS
    assert (predicted.decode is not None) == fits, (fit.verdict, predicted.reason)
    if not fits:
        assert not fit.command
        assert "does not fit" in predicted.reason
    # a plan may also change the cache and the place of single matrices: `fit` then names what would fit
    assert fits <= (plan.recommended is not None), plan.reason
    assert (plan.recommended is not None) <= (fits or bool(fit.ways)), fit.verdict


@pytest.mark.parametrize(
    ("model", "quant", "device", "ram", "flag"),
    [
        ("gpt-oss-120b", None, "RTX 3090", "48GB", "--n-cpu-moe 24"),
        ("glm-4.5-air", "Q4_K_M", "RTX 4090", "64GB", "--n-cpu-moe 35"),
        ("llama-3.3-70b", "Q8_0", "RTX 4090", "64GB", "-ngl 24"),
    ],
)
def test_more_than_the_ram_and_less_than_both_fits_partly(
    model: str, quant: str | None, device: str, ram: str, flag: str
) -> None:
    fit = unslow.fit(model, device=device, ram=ram, quant=quant)
    assert fit.verdict == "partly"
    assert flag in fit.command
    assert any(flag in way.command for way in fit.ways)


def test_a_quantised_cache_comes_before_few_bits_and_these_come_last() -> None:
    long = unslow.fit("qwen2.5-14b", context=32_768, device="RTX 3060")
    assert [way.what.split()[0] for way in long.ways] == ["a", "a", "Q3_K_M", "35"]
    assert "in a q8_0 cache" in long.ways[1].what
    large = unslow.fit("llama-3.3-70b", quant="Q4_K_M", device="RTX 4090")
    assert [way.what.split()[0] for way in large.ways] == ["42", "IQ2_XXS"]


def test_what_does_not_fit_gets_no_command() -> None:
    assert unslow.fit("llama-3.3-70b", device="cpu", ram="16GB").command == ""
