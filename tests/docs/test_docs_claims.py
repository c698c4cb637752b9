"""Speeds and sizes in the documentation are possible by the program's own calculation."""

import tomllib
from functools import cache
from pathlib import Path

import pytest

from unslow.commands.check.claims import check_text
from unslow.commands.explain import causes

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "reference" / "causes"
"""The same words as the pages of the causes, which are judged as they are in the code."""
WRITTEN = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent != GENERATED)]
TEXTS = {str(p.relative_to(ROOT)): p.read_text("utf-8") for p in WRITTEN} | {p.id: p.text for p in causes()}
ALLOWED = tomllib.loads((Path(__file__).parent / "allowed_claims.toml").read_text("utf-8"))["allowed"]
"""Sentences that state an impossible claim on purpose, each with the reason."""


@cache
def contested(text: str) -> list[str]:
    """Claims of speed, of bandwidth and of speed-ups that do not hold; a command with a size in it is no claim."""
    speeds = [
        j for j in check_text(text) if j.kind in ("speed", "prefill", "throughput", "ceiling", "bandwidth", "ratio")
    ]
    return [f"{j.claim}: {j.verdict}, {j.because}" for j in speeds if j.verdict in ("impossible", "unlikely")]


@pytest.mark.parametrize("name", TEXTS)
def test_every_speed_in_the_documentation_is_possible(name: str) -> None:
    left = [c for c in contested(TEXTS[name]) if not any(a["text"] in c for a in ALLOWED if a["file"] == name)]
    assert not left


def test_every_allowed_exception_is_still_needed() -> None:
    unused = [a["text"] for a in ALLOWED if not any(a["text"] in c for c in contested(TEXTS.get(a["file"], "")))]
    assert not unused


def test_an_impossible_sentence_would_be_noticed() -> None:
    assert contested("It is quick. Llama 3.3 70B Q4_K_M runs on an RTX 4090 at 72 tok/s.")
    assert contested("| device | 70B Q4 |\n|---|---|\n| RTX 4090 | ~25 tok/s |")
