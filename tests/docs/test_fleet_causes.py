"""The table of what a Prometheus can settle: every cause is in it, and everything that is read was given a value."""

from docs import fleet_causes

from unslow.fleet.member import ENGINE, GPU, HOST
from unslow.think.causes import all_causes


def test_every_quantity_that_is_read_has_a_value():
    assert fleet_causes._ENGINE.keys() == ENGINE.keys()
    assert fleet_causes._GPU.keys() == GPU.keys()
    assert fleet_causes._HOST.keys() == HOST.keys()


def test_every_cause_has_a_row_with_a_mark_or_with_what_is_missing():
    rows = {line.split("`")[1]: line for line in fleet_causes.causes_table().splitlines()[2:]}
    assert rows.keys() == all_causes().keys()
    assert all(row.count("|") == len(fleet_causes.RUNTIMES) + 3 for row in rows.values())
    assert "| ✓ | ✓ | ✓ | ✓ | ✓ |" in rows["gpu_thermal_throttling"]
    assert "✓" not in rows["threads_exceed_cores"]
    assert "`runtime.threads`" in rows["threads_exceed_cores"]
