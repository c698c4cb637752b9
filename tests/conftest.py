"""Lets every test import the stand-ins of `doubles`, the firing cases of causes, and the recorded rows of `lab`."""

import gc
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes"), str(HERE.parent)]

settings.register_profile("unslow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unslow")  # a busy machine is slow, and no test is wrong for that

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as it is wherever the tests run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

TRACED = ("app", "facts", "think")
"""Folders whose tests tell which lines of `facts` and `think` are tested. Those of the others run the same lines again,
and being traced takes as long as running them."""


UNTRACED = {("app", name) for name in ("apply", "plan", "tune", "verify")}
"""Of the traced folders, those that run for long what has tests of its own in another."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of no traced folder are not traced."""
    for item in items:
        parts = item.path.relative_to(HERE).parts
        if parts[0] not in TRACED or parts[:2] in UNTRACED:
            item.add_marker(pytest.mark.no_cover)


def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end: the collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()
