import pytest
from doubles import FakeSystem

from unslow.app.check import answer, check_text, decoded, read_claims
from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system import LookError


def test_the_worst_verdict_counts() -> None:
    report = answer("7B Q4 on an RTX 4090: 150 tok/s. 70B Q4 on an RTX 4090: 150 tok/s.", several=True)
    assert [c.verdict for c in report.claims] == ["possible", "impossible"]
    assert report.verdict == "impossible"


def test_a_function_for_texts() -> None:
    assert [j.verdict for j in check_text("Llama 3 8B has 64 layers.")] == ["impossible"]


def test_a_file_is_read_through_the_door() -> None:
    system = FakeSystem(files={"/guide.md": "70B Q4 fits in 24 GB"})
    assert read_claims(system, "/guide.md") == "70B Q4 fits in 24 GB"
    with pytest.raises(UserError, match="not there"):
        read_claims(system, "/other.md")
    refused = FakeSystem(files={"/x": LookError("/x: permission denied", Absence.FAILED)})
    with pytest.raises(UserError, match="permission denied"):
        read_claims(refused, "/x")


def test_what_is_no_text() -> None:
    with pytest.raises(UserError, match="is no text"):
        decoded(b"\0\1\2", "it")
    assert decoded(b"caf\xe9", "it") == "caf\ufffd"
