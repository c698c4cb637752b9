from pathlib import Path

from docs._build.stub import stub

import unslow


def test_the_stub_matches_the_functions():
    assert Path(unslow.__file__).with_suffix(".pyi").read_text("utf-8") == stub(), "run `make docs`"
