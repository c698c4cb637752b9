import pytest
from trees import tree

from unslow.facts.values import Unknown
from unslow.look.kernel.gpus import parse_generation, read_link

DEVICE, ROOT = "/sys/class/drm/card0/device", "/sys/devices/pci0000:00/0000:00:01.0"


def link(place: str, speed: str, width: str) -> dict[str, str]:
    return {
        f"{place}/{when}_link_{what}": value
        for when in ("current", "max")
        for what, value in (("speed", speed), ("width", width))
    }


def test_pcie_link_of_a_card_without_bridges_is_its_own():
    system = tree(link(DEVICE, "8.0 GT/s PCIe\n", "4\n"), links={DEVICE: f"{ROOT}/0000:01:00.0"})
    assert [fact.need() for fact in read_link(system, DEVICE).values()] == [3, 3, 4, 4]


def test_pcie_link_of_an_amd_card_is_that_of_its_outermost_bridge():
    card = f"{ROOT}/0000:01:00.0"
    files = {
        **link(DEVICE, "16.0 GT/s PCIe\n", "16\n"),
        **link(card, "2.5 GT/s PCIe\n", "1\n"),
        f"{ROOT}/vendor": "0x1022\n",
        f"{ROOT}/class": "0x060400\n",
        f"{card}/vendor": "0x1002\n",
        f"{card}/class": "0x060400\n",
    }
    system = tree(files, links={DEVICE: f"{card}/0000:02:00.0/0000:03:00.0"})
    assert [fact.need() for fact in read_link(system, DEVICE).values()] == [1, 1, 1, 1]


@pytest.mark.parametrize(("speed", "width"), [("Unknown\n", "255\n"), ("9.9 GT/s\n", "0\n"), ("", "-1\n")])
def test_pcie_link_of_a_powered_down_card_is_unknown(speed: str, width: str):
    assert all(isinstance(fact, Unknown) for fact in read_link(tree(link(DEVICE, speed, width)), DEVICE).values())


@pytest.mark.parametrize(("text", "generation"), [("2.5 GT/s PCIe", 1), ("5.0 GT/s PCIe", 2), ("32.0 GT/s PCIe", 5)])
def test_pcie_generation_is_parsed_from_gt_per_s(text: str, generation: int):
    assert parse_generation(text, "f").need() == generation
