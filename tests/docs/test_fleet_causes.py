"""The table of what Prometheus can decide has every cause, and every quantity has a value."""

from docs._build import fleet_causes

from unslow.fleet.member import ENGINE, GPU, HOST
from unslow.think.causes import all_causes


def test_every_quantity_has_an_example_value():
    assert fleet_causes._ENGINE.keys() == ENGINE.keys()
    assert fleet_causes._GPU.keys() == GPU.keys()
    assert fleet_causes._HOST.keys() == HOST.keys()


def test_every_cause_has_a_row_with_marks_or_missing_facts():
    rows = {line.split("`")[1]: line for line in fleet_causes.causes_table().splitlines()[2:]}
    assert rows.keys() == all_causes().keys()
    assert all(row.count("|") == len(fleet_causes.RUNTIMES) + 3 for row in rows.values())
    assert "| ✓ | ✓ | ✓ | ✓ | ✓ |" in rows["gpu_thermal_throttling"]
    assert "✓" not in rows["threads_exceed_cores"]
    assert "`runtime.compute.threads`" in rows["threads_exceed_cores"]
