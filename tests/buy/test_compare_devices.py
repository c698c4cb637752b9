"""Devices side by side: the same numbers that `unslow predict` and `unslow fit` have."""

from pathlib import Path
from typing import Any

import pytest
from tests.market_day import MarketDay

from unslow.buy.devices import devices
from unslow.buy.report import BuyerPrices, DevicesReport, RigShown
from unslow.buy.rigs import rig_here, rig_shown_here
from unslow.catalog.device_names import misspelt
from unslow.catalog.devices import all_devices
from unslow.commands._hardware import HardwareRequest, find_hardware
from unslow.commands.devices import DevicesRequest
from unslow.commands.fit import FitRequest
from unslow.commands.fit import fit_model as fit
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer as predict
from unslow.facts.errors import UserError
from unslow.look.system.recorded import RecordedSystem
from unslow.think.hardware import Hardware

MACHINES = Path(__file__).parents[1] / "machines"


def asked(*names: str, **flags: Any) -> DevicesReport:
    return devices(MarketDay(), DevicesRequest.from_flags({"names": list(names), **flags}))


def one(name: str, **flags: Any) -> RigShown:
    (found,) = asked(name, **flags).devices
    return found


@pytest.mark.parametrize(
    ("device", "model"), [("2x RTX 3090", "llama-3.3-70b"), ("RTX 4060", "gpt-oss-20b"), ("M4 Max 64GB", "qwen3-32b")]
)
def test_device_speeds_equal_those_of_predict(device: str, model: str) -> None:
    found = one(device, model=model, context="4096")
    report = predict(MarketDay(), PredictRequest.from_flags({"model": model, "devices": [device], "depth": "4096"}))
    assert found.speed is not None
    assert report.decode is not None
    assert report.prefill is not None
    assert found.speed.decode_tokens_per_s == report.decode.tokens_per_s
    assert found.speed.prefill_tokens_per_s == report.prefill.tokens_per_s
    assert found.speed.first_token_s == report.prefill.time_to_first_token_s


def test_device_table_matches_published_facts() -> None:
    assert one("RTX 4090", model="llama-3.3-70b", quant="Q4_K_M").fits == "partly"  # 40 GiB on 24
    assert one("2x RTX 3090", model="llama-3.3-70b", quant="Q4_K_M").fits == "whole"
    assert one("RTX 4060", model="llama-3.1-8b", quant="Q4_K_M", context="4096").fits == "whole"
    assert one("RTX 4060", model="llama-3.1-8b", quant="Q8_0").fits == "partly"
    assert one("RTX 5060 Ti 16GB", model="gpt-oss-20b").fits == "whole"
    assert one("M4 16GB", model="llama-3.3-70b").fits == "no"


def test_devices_fit_column_agrees_with_fit() -> None:
    for device, whole in (("RTX 3060", True), ("RTX 4060", False)):
        flags = {"model": "qwen3-8b", "quant": "Q8_0", "devices": [device], "context": "8448", "parallel": "1"}
        assert fit(MarketDay(), FitRequest.from_flags(flags)).fits is whole
        assert (one(device, model="qwen3-8b", quant="Q8_0", context="8192").fits == "whole") is whole


def test_price_per_speed_and_tokens_per_joule_are_ratios_of_shown_values() -> None:
    found = one("2x RTX 3090", model="qwen3-8b")
    assert found.speed is not None
    assert found.price is not None
    assert found.price_per_token_per_s == pytest.approx(1400 / found.speed.decode_tokens_per_s.mid)
    assert found.tokens_per_joule_by_tdp == pytest.approx(found.speed.decode_tokens_per_s.mid / 700)


def test_each_user_gets_a_share_of_the_total_speed() -> None:
    found = one("RTX 4090", model="qwen3-8b", users="4")
    assert found.speed is not None
    assert found.speed.each_tokens_per_s.mid == pytest.approx(found.speed.decode_tokens_per_s.mid / 4)


def test_devices_without_a_model_lists_catalogue_facts() -> None:
    report = asked("RTX 3090", "2x RTX 3090")
    assert report.asked is None
    assert [d.memory_bytes for d in report.devices] == [24 * 2**30, 48 * 2**30]
    assert all(d.speed is None and not d.reason for d in report.devices)


def test_all_devices_can_be_listed_and_filtered() -> None:
    every = asked(all=True, model="smollm2-135m", sort="speed")
    assert len(every.devices) > 300
    speeds = [d.speed.decode_tokens_per_s.mid if d.speed else 0.0 for d in every.devices]
    assert speeds == sorted(speeds, reverse=True)
    large = asked(vendor="amd", min_memory="24")
    assert {d.vendor for d in large.devices} == {"AMD"}
    assert min(d.memory_bytes or 0 for d in large.devices) >= 24 * 2**30
    assert len(asked().devices) == 7


def test_user_prices_win_and_another_currency_hides_builtin_prices() -> None:
    report = asked("RTX 3090", "RTX 5090", price=["rtx3090=650"], currency="EUR")
    assert [d.price.amount if d.price else None for d in report.devices] == [650, None]


def test_here_adds_this_machine_to_the_devices() -> None:
    machine = RecordedSystem(MACHINES / "h200_live_healthy")
    here, other = devices(machine, DevicesRequest(names=("here", "RTX 4090"))).devices
    assert (here.name, here.fits, here.tdp_w, here.speed) == ("here: H200 SXM", "unknown", 700, None)
    assert other.name == "RTX 4090"
    (paid,) = devices(machine, DevicesRequest(names=("here",), price=("here=0",))).devices
    assert paid.price is not None
    assert (paid.price.amount, paid.price.kind) == (0, "yours")


@pytest.mark.parametrize(("model", "fits"), [("qwen3-8b", "whole"), ("llama-3.1-405b", "partly")])
def test_this_machine_shows_the_prediction_of_predict(model: str, fits: str) -> None:
    hardware = find_hardware(RecordedSystem(MACHINES / "h200_live_healthy"), HardwareRequest())
    assert isinstance(hardware, Hardware)
    report = predict(MarketDay(), PredictRequest(model=model, devices=("H200 SXM",), batch=2))
    shown = rig_shown_here(hardware, BuyerPrices({}), report)
    assert (shown.name, shown.fits) == ("here: H200 SXM", fits)
    assert shown.speed is not None
    assert report.decode is not None
    assert shown.speed.decode_tokens_per_s == report.decode.tokens_per_s
    assert shown.speed.each_tokens_per_s.mid == pytest.approx(report.decode.each_tokens_per_s)
    assert (shown.speed.gpu_layers is None) == (fits == "whole")


def test_machine_with_different_gpus_says_why_speed_is_unknown() -> None:
    machine = RecordedSystem(MACHINES / "built_rtx_3090_and_p40_uneven_split")
    (here,) = devices(machine, DevicesRequest(names=("here",))).devices
    assert (here.speed, here.name) == (None, "here")
    assert "speed of mixed devices is not predicted" in here.reason


@pytest.mark.real
def test_the_machine_running_the_tests_gets_a_speed() -> None:
    here = one("here", model="qwen3-0.6b", quant="Q4_0")
    assert here.speed is not None
    assert here.speed.decode_tokens_per_s.mid > 0.1


@pytest.mark.parametrize(
    ("names", "flags"),
    [
        (("RTX 9999",), {}), (("RTX 3090 + RTX 4090",), {}), (("Groq LPU v1",), {}), (("24GB",), {}),
        ((), {"sort": "beauty"}), ((), {"vendor": "nobody"}), (("RTX 3090",), {"context": "-5"}),
        (("RTX 3090",), {"price": ["RTX 3090"]}), (("RTX 3090",), {"price": ["nobody=5"]}),
        (("RTX 3090",) * 65, {}), (("RTX 3090",), {"prices": "/nowhere/prices.toml"}),
        ((), {"min_memory": "0"}), (("RTX 3090",), {"price": ["24GB=5"]}),
    ],
)  # fmt: skip
def test_invalid_devices_request_is_a_user_error_with_a_hint(names: tuple[str, ...], flags: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        asked(*names, **flags)
    assert error.value.hint


def test_misspelled_device_is_an_error_with_suggestions(wording) -> None:
    for slip in ("RTX 3090 Tii", "M4 Maxx", "RTX 4070 Supre"):
        with pytest.raises(UserError) as error:
            one(slip)
        wording(error.value.hint, tells=slip.split()[0])
    assert one("NVIDIA GeForce RTX 3090 Founders Edition").device == "RTX 3090"
    assert not [(d.name, name) for d in all_devices() for name in (d.name, *d.also) if misspelt(name, d)]


def test_context_beyond_trained_length_is_noted(wording) -> None:
    said = ["\n".join(asked("RTX 3090", model="qwen3-8b", context=context).notes) for context in ("8192", "128k")]
    assert "40,960" not in said[0]
    wording(said[1], about="40,960")
    wording("\n".join(asked("RTX 3090", model="qwen3-8b", users="4").notes), about="4 concurrent requests")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("h200_live_healthy", "H200 SXM"), ("built_rx_7900_xtx_healthy", "RX 7900 XTX"),
        ("built_two_rtx_3090_layer_split", "2x RTX 3090"),
    ],
)  # fmt: skip
def test_have_here_uses_the_gpu_of_this_machine(folder: str, name: str) -> None:
    assert rig_here(RecordedSystem(MACHINES / folder)).name == name


def test_have_here_without_a_gpu_is_an_error() -> None:
    with pytest.raises(UserError):
        rig_here(RecordedSystem(MACHINES / "built_laptop_cpu_healthy"))
