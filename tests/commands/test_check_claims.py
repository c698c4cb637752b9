import pytest
from doubles import FakeSystem

from unslow.commands.check.claims import answer, check_text, decode_text, read_claims
from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system import LookError


def test_worst_verdict_of_several_claims_counts() -> None:
    report = answer("7B Q4 on an RTX 4090: 150 tok/s. 70B Q4 on an RTX 4090: 150 tok/s.", several=True)
    assert [c.verdict for c in report.claims] == ["possible", "impossible"]
    assert report.verdict == "impossible"


def test_check_text_judges_a_string() -> None:
    assert [j.verdict for j in check_text("Llama 3 8B has 64 layers.")] == ["impossible"]


def test_claim_file_errors_are_user_errors() -> None:
    system = FakeSystem(files={"/guide.md": "70B Q4 fits in 24 GB"})
    assert read_claims(system, "/guide.md") == "70B Q4 fits in 24 GB"
    with pytest.raises(UserError, match="not there"):
        read_claims(system, "/other.md")
    refused = FakeSystem(files={"/x": LookError("/x: permission denied", Absence.FAILED)})
    with pytest.raises(UserError, match="permission denied"):
        read_claims(refused, "/x")


def test_binary_data_is_refused() -> None:
    with pytest.raises(UserError, match="is not text"):
        decode_text(b"\0\1\2", "it")
    assert decode_text(b"caf\xe9", "it") == "caf\ufffd"


def test_model_larger_than_the_device_memory_is_unlikely(wording) -> None:
    (claim,) = answer("qwen3-30b-a3b on a raspberry pi 5 at 8 tok/s", several=False).claims
    assert claim.verdict == "unlikely"
    wording(claim.because, tells="16 GiB")
    (small,) = answer("llama 3.2 3b on a raspberry pi 5 at 5 tok/s", several=False).claims
    assert small.verdict == "possible"


def test_substituted_model_shape_and_quant_are_noted(wording) -> None:
    (claim,) = answer("glm-4.7 UD-Q4_K_XL on 2x H200 at 40 tok/s", several=False).claims
    wording(claim.notes, tells=("GLM-4.7", "GLM-4.6"))
    assert any("estimate" in note for note in claim.notes)
