"""The proxy that corrupts answers: its faults, which queries it affects, and that it forwards the rest."""

import sys
from collections import deque

import pytest
from lab.fleet.unwell import Unwell, main, unwell
from lab.fleet.unwell_deeds import DEEDS

from unslow.look.system.live import LiveSystem


def test_faults_apply_only_to_matching_queries():
    proxy = Unwell("http://127.0.0.1:1", "slow:2.5", only="vllm", next=deque(["cut"]))
    assert proxy.deed_for("up") == ("pass", 0.0)
    assert proxy.deed_for("rate(vllm:tokens[5m])") == ("cut", 0.0)
    assert proxy.deed_for("rate(vllm:tokens[5m])") == ("slow", 2.5)


def test_every_fault_is_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["unwell", "--list"])
    main()
    assert set(capsys.readouterr().out.split()) == {*DEEDS, "slow"}


def test_an_unreachable_prometheus_is_a_bad_gateway():
    with unwell("http://127.0.0.1:1") as proxy:
        assert LiveSystem().request("GET", f"{proxy.url}/api/v1/query?query=up").status == 502
        assert proxy.forms == [{"query": "up"}]
