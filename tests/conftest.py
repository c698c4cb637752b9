"""Lets every test import the stand-ins of `doubles`, the firing cases of causes, and the recorded rows of `lab`."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes"), str(HERE.parent)]
pytest_plugins = ["tests.golden.wording"]

settings.register_profile(
    "unslow",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),  # a gate says the same of the same code; by hand, every run tries others
)
settings.load_profile("unslow")  # a busy machine is slow, and no test is wrong for that

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as it is wherever the tests run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

TRACED = (
    "facts/", "think/", "commands/fit/", "commands/bench/sweeps/", "buy/", "fleet/capacity/", "fleet/test_",
    "live/test_live_", "page/test_",
)  # fmt: skip
"""Tests that tell which lines of what the gate is for are tested. Others run the same lines again, and being traced
takes longer than running them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The others are not traced."""
    for item in items:
        if not item.path.relative_to(HERE).as_posix().startswith(TRACED):
            item.add_marker(pytest.mark.no_cover)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What is not to be traced is not: in a worker of pytest-xdist, pytest-cov stops one of its two tracers alone."""
    if item.get_closest_marker("no_cover") is None:
        return (yield)
    here, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(here)
        threading.settrace(in_threads)


def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end: the collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()
