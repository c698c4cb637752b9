"""The programs of Prometheus for tests; a test without one is skipped, or fails where it is needed."""

import os
import shutil
from pathlib import Path

import pytest

HOW_TO_GET = "apt install prometheus prometheus-node-exporter"


def is_needed() -> bool:
    """Whether a test without Prometheus fails instead of being skipped."""
    return os.environ.get("UNSLOW_NEEDS_PROMETHEUS") == "1"


def prometheus_program() -> Path:
    """The server."""
    return _found("prometheus", "UNSLOW_PROMETHEUS")


def promtool() -> Path:
    """What checks rules and metrics, and writes blocks."""
    return _found("promtool", "UNSLOW_PROMTOOL")


def node_exporter() -> Path:
    """The exporter of a host; Debian calls it differently."""
    return _found("prometheus-node-exporter", "UNSLOW_NODE_EXPORTER", "node_exporter")


def _found(name: str, variable: str, *other_names: str) -> Path:
    named = os.environ.get(variable) or next(filter(None, map(shutil.which, (name, *other_names))), None)
    if named:
        return Path(named)
    why = f"there is no {name}; {HOW_TO_GET}, or {variable} names one"
    if is_needed():
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
