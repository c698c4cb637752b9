"""Reading saved plans, for apply, verify and tune."""

import io
import sys
from pathlib import Path

import msgspec
import pytest
from plans import option, plan, written

from unslow.commands.plan.subjects import LARGEST_BYTES, parse_saved, read_saved
from unslow.facts.errors import UserError

PLAN = plan("llama.cpp", "m", option("KV q8_0", kv_cache_type="q8_0"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a plan"),
        (b"[" * 100_000, "not a plan"),
        (b"\xff", "not a plan"),
        (b"{}", "schema 'None'"),
        (b'{"schema": "unslow.plan/1"}', "not a plan"),
        (b" " * (LARGEST_BYTES + 1), "larger than 16 MiB"),
        (msgspec.json.encode(PLAN).replace(b"unslow.plan/1", b"unslow.plan/9"), "schema 'unslow.plan/9'"),
    ],
)
def test_invalid_plan_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why) as error:
        parse_saved(data, "x.json")
    assert "unslow plan --json" in error.value.hint


def test_plan_is_read_from_a_file_and_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, PLAN)
    assert read_saved(path) == PLAN
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(path).read_bytes())))
    assert read_saved("-") == PLAN
    for name in ("none.json", "a\0b"):
        with pytest.raises(UserError):
            read_saved(str(tmp_path / name))


def test_plan_of_an_older_version_is_not_of_a_running_server() -> None:
    older = {k: v for k, v in msgspec.to_builtins(PLAN).items() if k not in ("of_running", "url")}
    read = parse_saved(msgspec.json.encode(older), "x.json")
    assert (read.of_running, read.url) == (False, "")
