"""One server for all questions that change nothing."""

import pytest
from page_server import serving


@pytest.fixture(scope="session")
def page():
    with serving() as found:
        yield found
