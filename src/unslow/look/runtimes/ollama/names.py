"""Names of Ollama's models: a tag where none is said, and the name of a model that is made from another one."""

import re

MADE = "unslow"
"""The end of the name of every model that is made here."""
USUAL_TAG = "latest"
"""What Ollama takes for a name without a tag."""
_NOT_TAG = re.compile(r"[^\w.-]")


def full_name(name: str) -> str:
    """A name as the server lists it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:{USUAL_TAG}"


def derived_name(model: str) -> str:
    """A name beside the one of the model: another tag of it, or another name where it has none but the usual."""
    name, _, tag = re.split(r"[\\/]", model)[-1].removesuffix(".gguf").partition(":")
    plain = _NOT_TAG.sub("-", name).lower()
    return f"{plain}-{MADE}" if tag in ("", USUAL_TAG) else f"{plain}:{tag}-{MADE}"
