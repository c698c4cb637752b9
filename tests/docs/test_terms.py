"""The documentation, generated pages too, uses the terms of the glossary and none of those to avoid."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GLOSSARY = (DOCS / "reference" / "glossary.md").read_text("utf-8")
ENTRIES = re.findall(r"^\*\*(.+?)\*\*: (.+)", GLOSSARY, re.MULTILINE)
REPORTED = {
    "acceptance rate", "assumed", "baseline", "batch", "context length", "decode", "draft model", "driver", "estimate",
    "GPU layers", "host memory", "KV cache", "layer split", "memory bandwidth", "micro-batch", "mmap", "not measured",
    "offloaded layers", "oversubscribed", "page cache", "Pareto front", "preempted", "prefill", "quantization", "queue",
    "ruled out", "slot", "spill", "tensor parallel", "throttled", "time to first token", "tok/s", "undetermined",
    "unknown", "VRAM",
}  # fmt: skip
"""Terms that reports use."""
PAGES = {str(p.relative_to(DOCS)): p for p in DOCS.rglob("*.md")}
PAGES |= {f"../{n}": ROOT / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")}
AVOIDED = {
    r"nobody (?:looked|measured|has|knows)": "not measured, unknown",
    r"thrown out": "preempted",
    r"as set up": "with these settings",
    r"(?<!there )\b(?:is|are|was|were) no (?!longer)[a-z]": "is not a",
    r"can't be\b": "cannot be; must be between A and B",
    r"\breckon": "estimate, calculate",
    r"\bstrangers?\b": "other processes",
    r"\b(?:lies?|lying|lay) (?:on|in) (?:the |a |its )?(?:GPU|card|RAM|VRAM|host|memory)": "is on",
    r"\bso many\b": "the number",
    r"\ball of it\b": "everything",
    r"\bnought\b": "zero",
    r"\bthat there is\b": "",
    r"\bno more than\b": "at most",
    r"\bsomebody\b": "someone, a user",
    r"\bby (?:it|them)sel(?:f|ves)\b": "automatically, alone",
    r"\b(?:is|are) taken (?:for|to be)\b": "is assumed to be",
    r"\bthe like\b": "similar",
    r"\b(?:kin|crew|purse|manners|guests?|robbed)\b": "a plain word",
    r"with the host": "on the host",
}
"""Patterns to avoid in prose, and what to write instead."""
GENERATED = re.compile(r"<!-- ([^/:>][^:>]*): written by.*?<!-- /\1 -->", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*$|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def avoided_terms(text: str) -> list[str]:
    """Every avoided term in the prose of a page, with its replacement."""
    prose = " ".join(CODE.sub("", GENERATED.sub("", text)).split())
    return [
        f"{found[0]!r} in {prose[max(0, found.start() - 40) : found.end() + 30]!r}: {better}"
        for pattern, better in AVOIDED.items()
        for found in re.finditer(pattern, prose, re.IGNORECASE)
    ]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_avoids_unidiomatic_terms(name):
    assert not avoided_terms(PAGES[name].read_text("utf-8"))


def test_avoided_term_is_reported_but_not_in_code_or_generated_blocks():
    assert avoided_terms("It is taken to\nbe fast.")
    assert avoided_terms("A lab is no proof.")
    assert not avoided_terms(
        "`as set up`\n\n```text\nas set up\n```\n<!-- a: written by `make docs` -->\nas set up\n<!-- /a -->"
    )


def test_glossary_has_every_term_of_the_reports():
    terms = {name.strip() for entry, _ in ENTRIES for name in entry.replace("(", ",").split(",")}
    assert terms >= REPORTED


def test_glossary_is_alphabetical_and_has_no_duplicates():
    names = [entry.lower() for entry, _ in ENTRIES]
    assert names == sorted(set(names))
