"""Fleets from Python: the report of the command, nothing printed, and the same errors."""

import inspect
import json

import pytest
from docs._build.docstrings import docstring_of
from lab.fleet.bed import healthy, sent_bed
from lab.fleet.faults import with_fault
from real_prometheus import prometheus_program

import unslow
from unslow.commands._dispatch import command_parser

OF_COMMANDS = {"help", "action", "format", "output", "quiet", "exit_zero", "instance", "save", "top", "all"} | {
    "tests", "pages"
}  # fmt: skip
"""Where output goes, and what other actions take."""


def test_a_fleet_is_diagnosed_from_python_without_output(tmp_path, capsys):
    instances = [healthy(0), with_fault(healthy(2), "thermal")]
    with sent_bed(prometheus_program(), tmp_path, instances) as prometheus:
        report = unslow.diagnose_fleet(prometheus.url, compare="none", workers=1)
        capacity = unslow.fleet_capacity(prometheus.url, goal="30 tok/s", span="10m")
    assert report.verdicts == {"failed": 0, "slow": 1, "cannot_tell": 0, "normal": 1}
    assert report.instances[0].findings[0].cause == "gpu_thermal_throttling"
    assert " 1 SLOW " in unslow.to_text(report)
    assert json.loads(unslow.to_json(report))["schema"] == "unslow.fleet/1"
    assert (capacity.goal.tokens_per_s, capacity.schema) == (30.0, "unslow.capacity/1")
    assert "30 tok/s" in unslow.to_text(capacity)
    assert capsys.readouterr().out == ""


def test_without_an_address_the_error_says_what_to_give(monkeypatch, wording):
    monkeypatch.delenv("UNSLOW_PROMETHEUS_URL", raising=False)
    for ask in (unslow.diagnose_fleet, unslow.fleet_capacity):
        with pytest.raises(unslow.UserError) as caught:
            ask()
        wording(str(caught.value))
    with pytest.raises(unslow.UserError) as caught:
        unslow.diagnose_fleet("http://127.0.0.1:9", window="soon")
    wording(str(caught.value))


def test_fleet_functions_take_what_the_command_takes():
    command = command_parser("fleet")
    flags = {action.dest for action in command._actions} - OF_COMMANDS
    asks = (unslow.diagnose_fleet, unslow.fleet_capacity)
    taken = {one.name for ask in asks for one in docstring_of(ask).arguments} - {"progress"}
    assert flags == taken
    assert all(not inspect.signature(ask).parameters["insecure"].default for ask in asks)
