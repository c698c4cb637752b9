"""What can be bought, in which sizes, and the typical device of a size."""

import pytest

from unslow.buy.rigs import Rig, buyable, is_card, rigs_of
from unslow.buy.tiers import CARDS, UNIFIED, family, newer, shapes, surely_too_large, typical
from unslow.catalog.devices import all_devices
from unslow.catalog.models import well_known
from unslow.facts.values import GIB


def named(name: str) -> Rig:
    return next(rig for rig in rigs_of(all_devices()) if rig.label == name)


def test_a_mac_is_sold_in_its_sizes_and_a_card_in_pairs() -> None:
    names = {rig.name for rig in buyable(all_devices())}
    assert {"RTX 3090", "2x RTX 3090", "Apple M4 Max 64GB", "DGX Spark GB10"} <= names
    assert "2x Apple M4 Max 64GB" not in names


def test_what_is_soldered_into_something_is_no_card() -> None:
    names = [rig.name for rig in buyable(all_devices()) if rig.device.kind == "gpu"]
    assert not [name for name in names if "Laptop" in name or "SXM" in name or "Max-Q Laptop" in name]
    assert is_card(named("RTX 3090").device)
    assert not is_card(named("H100 SXM").device)


def test_the_smallest_size_is_known() -> None:
    assert named("Apple M4 Max 48GB").is_smallest
    assert not named("Apple M4 Max 64GB").is_smallest
    assert named("RTX 3090").is_smallest


@pytest.mark.parametrize("size", CARDS)
def test_every_size_of_cards_has_a_typical_one_in_the_middle(size: int) -> None:
    rig, count = typical(all_devices(), size, unified=False)
    assert rig is not None
    assert rig.each_bytes == size
    alike = [r for r in rigs_of(all_devices()) if r.each_bytes == size and is_card(r.device)]
    assert min(r.device.memory_bytes_per_s for r in alike) <= rig.device.memory_bytes_per_s
    assert 1 <= count <= len(alike)


def test_a_size_that_nobody_makes_has_none() -> None:
    assert typical(all_devices(), 7 * GIB, unified=False) == (None, 0)
    assert all(typical(all_devices(), size, unified=True)[0] for size in UNIFIED)


def test_models_of_one_shape_are_one_and_the_newest_speaks() -> None:
    groups = shapes(well_known().values(), 8192)
    llama = next(group for group in groups if any(m.name == "Llama-3.1-70B" for m in group))
    assert llama[0].name == "Llama-3.3-70B"
    assert len(llama) > 2
    order = [(g[0].shape.context_trained < 32768, -g[0].parameters) for g in groups]
    assert order == sorted(order)  # the largest first, those of few tokens after all others


def test_a_later_version_about_as_large_is_found() -> None:
    known = {m.name: m for m in well_known().values()}
    found = [m.name for m in newer(known.values(), known["Qwen2.5-14B"])]
    assert "Qwen3-14B" in found
    assert "Qwen3-8B" not in found
    assert {m.name[:7] for m in newer(known.values(), known["Llama-3.3-70B"])} == {"Llama-4"}


def test_the_typical_card_is_none_that_is_made_for_workstations() -> None:
    rig, _ = typical(all_devices(), 16 * GIB, unified=False)
    assert rig is not None
    assert 0 < rig.device.launch_usd < 700


def test_one_of_those_that_are_named() -> None:
    rig = named("Apple M4 Max 64GB")
    assert rig.is_one_of(Rig(rig.device))
    assert rig.is_one_of(rig)
    assert not rig.is_one_of(named("Apple M4 Max 48GB"))
    assert named("RTX 3090")._replace(number=2).is_one_of(named("RTX 3090"))


def test_models_that_can_not_hold_the_context_or_do_not_chat_are_left_out() -> None:
    names = {m.name for group in shapes(well_known().values(), 8192) for m in group}
    assert "Llama-2-13B" not in names  # trained for 4,096
    assert not [name for name in names if "embedding" in name.lower()]
    assert "Llama-2-13B" in {m.name for group in shapes(well_known().values(), 4096) for m in group}


def test_families_and_sizes() -> None:
    model = next(m for m in well_known().values() if m.name == "Llama-3.3-70B")
    assert family(model) == "llama"
    assert surely_too_large(model, 4.8, 24 * GIB)
    assert not surely_too_large(model, 4.8, 48 * GIB)
