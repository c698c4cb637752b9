import pytest
from doubles import FakeSystem

from unslow.facts.machine import Machine
from unslow.facts.values import Unknown
from unslow.look.probes.vmstat import VMSTAT, parse_swapped, read
from unslow.look.system.live import LiveSystem

TEXT = "pgpgin 113526\npswpin 12\npswpout 3000\npgmajfault 55\n"


def test_pages_become_bytes():
    memory = read(FakeSystem(files={VMSTAT: TEXT}, asks={"page size": 4096})).memory
    assert (memory.swapped_in_bytes.need(), memory.swapped_out_bytes.need()) == (12 * 4096, 3000 * 4096)


def test_this_machine_counts():
    assert read(LiveSystem()).memory.swapped_in_bytes.need() >= 0


@pytest.mark.parametrize("system", [FakeSystem(), FakeSystem(files={VMSTAT: TEXT}), FakeSystem(asks={"page size": 1})])
def test_without_both_answers_nothing_is_said(system: FakeSystem):
    assert read(system) == Machine()


@pytest.mark.parametrize("text", ["", "pswpin", "pswpin -5", "pswpin 999999999999999999"])
def test_garbage(text: str):
    assert isinstance(parse_swapped(text, 65536).swapped_in_bytes, Unknown)
