"""The made-up models that the faults name: random weights run at the speed of their shape."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.catalog.architectures import MadeUpShape, made_up_shapes
from unslow.look.engine.made_up_models import planned_model, write_model


class Made(NamedTuple):
    """A shape of the catalogue in one mix of types, with what differs from it."""

    shape: str
    quant: str
    changes: dict[str, int] = {}  # noqa: RUF012 (never changed)

    @property
    def form(self) -> MadeUpShape:
        """The shape as it is written."""
        return msgspec.structs.replace(made_up_shapes()[self.shape], **self.changes)


MODELS = {
    "small": Made("llama_135m", "Q4_1"),
    "llama_1b": Made("llama_1b", "Q4_K_M"),
    "experts": Made("check_experts", "Q4_K_M"),
    "draft": Made("llama_135m", "Q8_0", {"layers": 10}),
}
"""By the name of the file, without its ending."""


def make_models(folder: Path) -> None:
    """Write those that are not there yet, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in MODELS.items():
        path = folder / f"{name}.gguf"
        if not path.exists():
            print(f"making {path}", flush=True)
            part = path.with_suffix(f".{os.getpid()}.part")
            with part.open("wb") as file:
                write_model(planned_model(made.form, made.quant, name), file)
            part.replace(path)
