import pytest
from doubles import FakeSystem

from unslow.commands.check.claims import answer, check_text, decoded, read_claims
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


def test_what_no_memory_of_the_device_holds_is_unlikely_and_says_so(wording) -> None:
    (claim,) = answer("qwen3-30b-a3b on a raspberry pi 5 at 8 tok/s", several=False).claims
    assert claim.verdict == "unlikely"
    wording(claim.because, tells="16 GiB")
    (small,) = answer("llama 3.2 3b on a raspberry pi 5 at 5 tok/s", several=False).claims
    assert small.verdict == "possible"


def test_a_name_and_a_quant_that_others_stand_for_are_said(wording) -> None:
    (claim,) = answer("glm-4.7 UD-Q4_K_XL on 2x H200 at 40 tok/s", several=False).claims
    wording(claim.notes, tells=("GLM-4.7", "GLM-4.6"))
    assert any("estimate" in note for note in claim.notes)
