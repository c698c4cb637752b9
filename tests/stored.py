"""Model stores on a real disk: those that the tools themselves wrote, and others built as their sources say.

`look/models/stores/stores.tar.gz` holds what huggingface_hub 2.4.0 and llama-server (`-hf`) downloaded from a server
with small models, with links and all, and GGUF files by gguf-py. `look/models/checkpoints` holds the configs and
headers of one small model as Transformers, bitsandbytes, compressed-tensors and MLX wrote it, without the weights.
"""

import hashlib
import json
import shutil
import struct
import tarfile
from pathlib import Path
from typing import Any

from unslow.look.models.stores import ollama

HERE = Path(__file__).parent / "look"
CHECKPOINTS = HERE / "models" / "checkpoints"
NUMBERS = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I8": 1}


def extracted(folder: Path) -> Path:
    """A folder with `hf`, `llama` and `ggufs`."""
    with tarfile.open(HERE / "models" / "stores" / "stores.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def safetensors(header: Any, data_bytes: int | None = None) -> bytes:
    """A file with this header and that many bytes after it: by default, as many as its tensors take."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if data_bytes is None:
        data_bytes = max((t["data_offsets"][1] for t in json.loads(text).values() if "data_offsets" in t), default=0)
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


def tensors(**shapes: tuple[str, tuple[int, ...]]) -> dict[str, Any]:
    """A header with tensors of these types and shapes, one after the other; __ in a name stands for a dot."""
    header, at = {}, 0
    for name, (kind, shape) in shapes.items():
        size = NUMBERS[kind]
        for length in shape:
            size *= length
        header[name.replace("__", ".")] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return header


def checkpoint(name: str, folder: Path) -> Path:
    """A model that a real tool wrote, with zeros for weights."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (CHECKPOINTS / name).iterdir():
        if path.suffix == ".header":
            (folder / path.stem).write_bytes(safetensors(path.read_bytes()))
        else:
            shutil.copy(path, folder)
    return folder


class OllamaStore:
    """A store as Ollama's `manifest` package lays it out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs").mkdir(parents=True)
        (root / "manifests").mkdir()

    def blob(self, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (self.root / "blobs" / f"sha256-{digest}").write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def layer(self, role: str, data: bytes, **more: Any) -> dict[str, Any]:
        return {"mediaType": f"application/vnd.ollama.image.{role}", **self.blob(data), **more}

    def add(self, name: str, layers: list[dict[str, Any]], **config: Any) -> Path:
        """A manifest at `host/namespace/model/tag`."""
        path = self.root / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        manifest = {"schemaVersion": 2, "config": self.blob(json.dumps(config).encode()), "layers": layers}
        path.write_text(json.dumps(manifest))
        return path


def home(folder: Path, monkeypatch: Any, **variables: str) -> Path:
    """Makes a folder the home of this process, with these variables, and hides the Ollama that may run here."""
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(ollama, "SERVICE_PLACE", f"{folder}/service")
    monkeypatch.setattr(ollama, "served_places", lambda _: [])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return folder


def furnished(folder: Path, monkeypatch: Any) -> Path:
    """A home with a store of Ollama's and one of LM Studio's, beside the caches that real tools wrote."""
    real = extracted(folder / "real")
    ggufs = {path.stem: path for path in (real / "ggufs").iterdir()}
    here = home(folder / "home", monkeypatch, HF_HOME=str(real / "hf"))
    store = OllamaStore(here / ".ollama" / "models")
    embed = store.layer("model", ggufs["embed"].read_bytes())
    store.add("registry.ollama.ai/library/nomic/latest", [embed])
    store.add("registry.ollama.ai/library/nomic/v1.5", [embed])
    store.add("registry.ollama.ai/library/ranker/small", [store.layer("model", ggufs["rerank"].read_bytes())])
    store.add("registry.ollama.ai/library/gpt-oss/120b-cloud", [], remote_host="https://ollama.com:443")
    lost = {**store.layer("model", b"lost"), "digest": "sha256:" + "0" * 64}
    store.add("hf.co/lost/model/Q4_0", [lost])
    repository = here / ".lmstudio" / "models" / "pub" / "repo-GGUF"
    repository.mkdir(parents=True)
    shutil.copy(ggufs["rerank"], repository / "ranker-Q8_0.gguf")
    shutil.copy(ggufs["embed"], repository / "ranker-Q4_0.gguf")
    return folder
