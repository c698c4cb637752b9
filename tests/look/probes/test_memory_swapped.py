import pytest
from doubles import FakeSystem

from unslow.facts.values import NOT_LOOKED, Unknown
from unslow.look.probes.memory import VMSTAT, read
from unslow.look.system.live import LiveSystem

TEXT = "pgpgin 113526\npswpin 12\npswpout 3000\npgmajfault 55\n"


def test_vmstat_swap_pages_are_converted_to_bytes():
    memory = read(FakeSystem(files={VMSTAT: TEXT}, asks={"page size": 4096})).memory
    assert (memory.swapped_in_bytes.need(), memory.swapped_out_bytes.need()) == (12 * 4096, 3000 * 4096)


def test_swap_counters_of_this_machine_are_read():
    assert read(LiveSystem()).memory.swapped_in_bytes.need() >= 0


@pytest.mark.parametrize("system", [FakeSystem(), FakeSystem(files={VMSTAT: TEXT}), FakeSystem(asks={"page size": 1})])
def test_vmstat_without_page_size_gives_no_facts(system: FakeSystem):
    assert read(system).memory.swapped_in_bytes == NOT_LOOKED


@pytest.mark.parametrize("text", ["", "pswpin", "pswpin -5", "pswpin 999999999999999999"])
def test_garbage_vmstat_gives_unknown_facts(text: str):
    system = FakeSystem(files={VMSTAT: text}, asks={"page size": 65536})
    swapped = read(system).memory.swapped_in_bytes
    assert isinstance(swapped, Unknown)
    assert swapped != NOT_LOOKED
