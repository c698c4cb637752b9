"""What can be bought, in which sizes, and the typical device of a size."""

import pytest

from unslow.buy.rigs import Rig, buyable_rigs, is_card, rigs_of
from unslow.buy.tiers import CARDS, UNIFIED, model_family, models_by_shape, newer_versions, typical_rig
from unslow.catalog.devices import all_devices
from unslow.catalog.models import well_known
from unslow.facts.values import GIB


def named(name: str) -> Rig:
    return next(rig for rig in rigs_of(all_devices()) if rig.label == name)


def test_macs_are_offered_per_memory_size_and_cards_in_pairs() -> None:
    names = {rig.name for rig in buyable_rigs(all_devices())}
    assert {"RTX 3090", "2x RTX 3090", "Apple M4 Max 64GB", "DGX Spark GB10"} <= names
    assert "2x Apple M4 Max 64GB" not in names


def test_laptop_and_sxm_gpus_are_not_cards() -> None:
    names = [rig.name for rig in buyable_rigs(all_devices()) if rig.device.kind == "gpu"]
    assert not [name for name in names if "Laptop" in name or "SXM" in name or "Max-Q Laptop" in name]
    assert is_card(named("RTX 3090").device)
    assert not is_card(named("H100 SXM").device)


def test_smallest_memory_size_of_a_device_is_recognised() -> None:
    assert named("Apple M4 Max 48GB").is_smallest
    assert not named("Apple M4 Max 64GB").is_smallest
    assert named("RTX 3090").is_smallest


@pytest.mark.parametrize("size", CARDS)
def test_typical_card_of_each_size_has_median_bandwidth(size: int) -> None:
    rig, count = typical_rig(all_devices(), size, unified=False)
    assert rig is not None
    assert rig.each_bytes == size
    alike = [r for r in rigs_of(all_devices()) if r.each_bytes == size and is_card(r.device)]
    assert min(r.device.memory_bytes_per_s for r in alike) <= rig.device.memory_bytes_per_s
    assert 1 <= count <= len(alike)


def test_size_without_devices_has_no_typical_one() -> None:
    assert typical_rig(all_devices(), 7 * GIB, unified=False) == (None, 0)
    assert all(typical_rig(all_devices(), size, unified=True)[0] for size in UNIFIED)


def test_models_of_one_shape_are_grouped_under_the_newest() -> None:
    groups = models_by_shape(well_known().values(), 8192)
    llama = next(group for group in groups if any(m.name == "Llama-3.1-70B" for m in group))
    assert llama[0].name == "Llama-3.3-70B"
    assert len(llama) > 2
    order = [(g[0].shape.context_trained < 32768, -g[0].parameters) for g in groups]
    assert order == sorted(order)  # the largest first, those of few tokens after all others


def test_newer_version_of_similar_size_is_found() -> None:
    known = {m.name: m for m in well_known().values()}
    found = [m.name for m in newer_versions(known.values(), known["Qwen2.5-14B"])]
    assert "Qwen3-14B" in found
    assert "Qwen3-8B" not in found
    assert {m.name[:7] for m in newer_versions(known.values(), known["Llama-3.3-70B"])} == {"Llama-4"}


def test_typical_card_is_not_a_workstation_card() -> None:
    rig, _ = typical_rig(all_devices(), 16 * GIB, unified=False)
    assert rig is not None
    assert 0 < rig.device.launch_usd < 700


def test_named_rig_matches_its_memory_size_and_pairs() -> None:
    rig = named("Apple M4 Max 64GB")
    assert rig.is_one_of(Rig(rig.device))
    assert rig.is_one_of(rig)
    assert not rig.is_one_of(named("Apple M4 Max 48GB"))
    assert named("RTX 3090")._replace(number=2).is_one_of(named("RTX 3090"))


def test_models_with_short_context_or_without_chat_are_left_out() -> None:
    names = {m.name for group in models_by_shape(well_known().values(), 8192) for m in group}
    assert "Llama-2-13B" not in names  # trained for 4,096
    assert not [name for name in names if "embedding" in name.lower()]
    assert "Llama-2-13B" in {m.name for group in models_by_shape(well_known().values(), 4096) for m in group}


def test_model_family_of_a_70b() -> None:
    model = next(m for m in well_known().values() if m.name == "Llama-3.3-70B")
    assert model_family(model) == "llama"
