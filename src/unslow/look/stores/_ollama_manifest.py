"""A manifest of Ollama's store: the blobs that make up a model, by what they are for."""

import re
from typing import Annotated

import msgspec

from unslow.look.system import LookError

MOST_MANIFEST_BYTES = 4 * 1024**2  # a model in MLX's format has one layer for each tensor
_MEDIA = "application/vnd.ollama.image."
_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_HOST, _NAMESPACE = "registry.ollama.ai", "library"
_STEPS = 4  # host, namespace, model, tag


class Layer(msgspec.Struct, frozen=True):
    """One blob, and what it is."""

    digest: str
    size: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0
    media_type: str = msgspec.field(name="mediaType", default="")
    name: str = ""

    @property
    def role(self) -> str:
        """model, projector, adapter, draft, tensor, params, template, system, json ..."""
        return self.media_type.removeprefix(_MEDIA)

    @property
    def blob(self) -> str:
        """The name of its file; empty where the digest is none."""
        match = _DIGEST.fullmatch(self.digest)
        return f"sha256-{match[1]}" if match else ""


class Manifest(msgspec.Struct, frozen=True):
    """A model as a list of blobs."""

    layers: list[Layer]
    config: Layer | None = None

    def of(self, *roles: str) -> list[Layer]:
        """The layers with these roles."""
        return [layer for layer in self.layers if layer.role in roles]


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in `data`; LookError where it is none."""
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LookError(f"its manifest can't be read: {str(error)[:80]}") from error


def parse_name(path: str) -> str:
    """The name that Ollama shows for a manifest at `host/namespace/model/tag`; empty where that is no such path."""
    steps = path.split("/")
    if len(steps) != _STEPS or steps[3].startswith("."):
        return ""
    host, namespace, model, tag = steps
    if host != _HOST:
        return f"{host}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == _NAMESPACE else f"{namespace}/{model}:{tag}"
