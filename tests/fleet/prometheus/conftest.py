"""One real Prometheus for all query tests, and a proxy that injects faults."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from lab.fleet.prometheus import started
from lab.fleet.unwell import Unwell, unwell
from real_prometheus import prometheus_program


@pytest.fixture(scope="session")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it answers; it scrapes nothing, as queries can make up series themselves."""
    with started(prometheus_program(), tmp_path_factory.mktemp("prometheus")) as server:
        yield server.url


@pytest.fixture
def proxy(real_url: str) -> Iterator[Callable[..., Unwell]]:
    """Starts a proxy that applies one fault to every response."""
    with ExitStack() as stack:
        yield lambda always="pass", **fields: stack.enter_context(unwell(real_url, always, **fields))
