"""The documentation site is consistent: links, navigation, pictures, and no external requests."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LARGEST_PICTURE = 150_000
SHORTEST_WORDS = 20
"""Letters of an alternative text: fewer say nothing."""
ADDRESS = re.compile(r"https?://|^#|^mailto:")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(without_code(path.read_text("utf-8"))) if not ADDRESS.match(link)]


@pytest.mark.parametrize("path", [*PAGES, *TOP], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path):
    assert not [link for link in links(path) if not (path.parent / link.partition("#")[0]).exists()]


def test_a_broken_link_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("See [there](nowhere.md) and [here](https://example.org), not `[so](x.md)`.")
    assert links(page) == ["nowhere.md"]


def settings() -> dict:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def named(part) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [name for one in (part.values() if isinstance(part, dict) else part) for name in named(one)]


def test_the_navigation_names_every_page_once():
    names = named(settings()["nav"])
    written = {str(p.relative_to(DOCS)) for p in PAGES} | {p.name.lower() for p in TOP if p.name != "README.md"}
    left_out = {name for name in written if name.startswith("reference/causes/")}
    assert len(names) == len(set(names))
    assert set(names) == written - left_out


def test_the_site_has_its_sections():
    assert [next(iter(part)) for part in settings()["nav"]] == [
        "Start", "How to", "Questions", "Explanation", "Reference", "Contributing",
    ]  # fmt: skip


def test_the_site_makes_no_external_requests():
    theme, extra = settings()["theme"], settings()["extra"]
    assert theme["font"] is False
    assert "analytics" not in extra
    assert extra["polyfills"] == ["assets/iframe-worker.js"]
    assert "offline" in settings()["plugins"]
    assert not re.search(r"https?://", (DOCS / "assets" / "iframe-worker.js").read_text("utf-8"))


def pictures() -> list[tuple[Path, str, str]]:
    return [(page, *found) for page in [*PAGES, *TOP] for found in PICTURE.findall(page.read_text("utf-8"))]


def test_pictures_exist_are_small_and_have_alt_text():
    shown = pictures()
    assert len(shown) >= 5
    for page, words, address in shown:
        path = page.parent / address
        assert path.is_file(), address
        assert path.stat().st_size < LARGEST_PICTURE, address
        assert len(words) > SHORTEST_WORDS, f"{page.name}: {address} has no words"


def test_every_picture_is_used_and_loads_nothing():
    used = {(page.parent / address).resolve() for page, _, address in pictures()}
    kept = {path.resolve() for path in (DOCS / "images").iterdir()}
    assert kept == {path for path in used if path.is_relative_to(DOCS / "images")}
    for path in kept:
        if path.suffix == ".svg":
            assert "@font-face" not in path.read_text("utf-8")
            assert not re.search(r'(?:href|src)="https?:|url\(["\']?https?:', path.read_text("utf-8"))
