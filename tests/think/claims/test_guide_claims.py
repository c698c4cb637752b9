"""Every guide claim with a speed, a size, a layer count or a bandwidth gets the right verdict."""

import tomllib
from pathlib import Path

import pytest

from unslow.think.claims.check import check_claim
from unslow.think.claims.report import worst

CLAIMS = tomllib.loads((Path(__file__).parent / "guide_claims.toml").read_text("utf-8"))["claim"]


@pytest.mark.parametrize("claim", CLAIMS, ids=[c["text"] for c in CLAIMS])
def test_guide_claim_gets_its_verdict(claim: dict[str, str]) -> None:
    judged = tuple(check_claim(claim["text"]))
    assert judged
    assert worst(judged) == claim["verdict"], [(j.kind, j.verdict, j.because, j.arithmetic) for j in judged]
    assert all(len(j.arithmetic) == 3 for j in judged if j.verdict in ("impossible", "unlikely"))
