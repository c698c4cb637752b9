"""Reports of `unslow verify` are read back; anything else is refused."""

from pathlib import Path

import pytest

from unslow.commands.verify.comparison import LARGEST_BYTES, read_verified
from unslow.facts.errors import UserError

WRITTEN = Path(__file__).parents[3] / "lab" / "data" / "plan_gpu_whole" / "verify.json"


def test_written_report_is_read():
    assert read_verified(str(WRITTEN)).schema == "unslow.verify/1"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "unslow.fit/1"}', "\x00"])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(UserError, match="unslow verify"):
        read_verified(str(path))


def test_missing_or_too_large_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="not found"):
        read_verified(str(tmp_path / "none.json"))
    with (tmp_path / "long.json").open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    with pytest.raises(UserError, match="more than"):
        read_verified(str(tmp_path / "long.json"))
