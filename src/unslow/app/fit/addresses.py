"""Web addresses that a user gives for a model: a file's own is read, a page about a model is as good as its name."""

import re

from unslow.facts.errors import UserError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_NAMES = ("hf", "huggingface", "ollama")
"""Schemes with which some tools name a model that they fetch."""
_HUB_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([^/?#]+/[^/?#]+)(?:/tree/[^?#]*)?/?(?:[?#].*)?")
_HUB_FILE = re.compile(r"(https?://(?:www\.)?(?:huggingface\.co|hf\.co)/[^/?#]+/[^/?#]+)/blob/([^?#]+)")
_OLLAMA_PAGE = re.compile(r"https?://(?:www\.)?ollama\.com/(?:library/)?([^?#]+?)/?(?:[?#].*)?")


def is_address(word: str) -> bool:
    """Whether a word is a web address."""
    return word.lower().startswith(("http://", "https://"))


def meant_by(word: str) -> str:
    """The name that a page is about, and any other word as it is; UserError for addresses of nothing to be read."""
    scheme = _SCHEME.match(word)
    if not scheme:
        return word
    if scheme[1].lower() in _NAMES:
        return word[scheme.end() :]
    if not is_address(word):
        hint = "give an address with https://, a file, or a name such as Qwen3-8B"
        raise UserError(f"{word}: models are not read by {scheme[1]}://", hint)
    if page := _HUB_FILE.match(word):
        raise UserError(f"{word}: this is the page of a file, not the file", f"give {page[1]}/resolve/{page[2]}")
    about = _HUB_PAGE.fullmatch(word) or _OLLAMA_PAGE.fullmatch(word)
    return about[1] if about else word
