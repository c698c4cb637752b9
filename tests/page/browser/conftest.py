"""One browser, one server and one file for all tests of this folder that change nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("browser.memory_shown", "real_browser")

from lab.replay import serve  # noqa: E402
from real_browser import chromium  # noqa: E402

from browser.served import SHOWN, Served, served  # noqa: E402 (asserts of what is imported tell more)

TOKENS_PER_S = 400.0
"""A fast one, so that a run is over soon."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(*SHOWN, data=tmp_path_factory.mktemp("data")) as found:
        found.get("report")  # the first look is over
        yield found


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that watches a runtime which can be measured: recorded answers, at a pace of its own."""
    data = tmp_path_factory.mktemp("data")
    with serve("vllm", tokens_per_s=TOKENS_PER_S) as runtime, served(runtime, "--seconds", "5", data=data) as found:
        found.get("report")
        yield found


@pytest.fixture(scope="package")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `unslow report` writes of the same machine."""
    place = tmp_path_factory.mktemp("report") / "report.html"
    subprocess.run([sys.executable, "-m", "unslow", "report", *SHOWN, "-o", place, "--quiet"], check=True)
    return place
