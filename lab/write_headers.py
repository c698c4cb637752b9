"""Write the GGUF headers of well-known models, as sparse files of their full size, for llama.cpp to account.

    python lab/write_headers.py FOLDER --quant Q4_K_M [MODEL ...]

Without names, of every model of the catalogue. A file has no vocabulary and no weights: it loads wherever only the
header is read (llama-fit-params, or any program that loads without allocating), and takes a few kilobytes on disk.
"""

import argparse
from pathlib import Path

from unslow.catalog.models import WellKnown, well_known
from unslow.catalog.quants import quants
from unslow.facts.model import Blueprint, MetadataValue
from unslow.look.engine import made_up_models
from unslow.look.engine.made_up_models import Int32, TensorPlan, encoded_header, padding
from unslow.think.blueprints import made_up


def write_header(model: WellKnown, quant: str, path: Path) -> int:
    """Write one file; its apparent size."""
    blueprint = made_up(model, quant)
    header = encoded_header(_keys(blueprint), plans := _plans(blueprint))
    size = len(header) + sum(p.bytes + padding(p.bytes) for p in plans)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
    return size


def _keys(blueprint: Blueprint) -> dict[str, made_up_models.Value]:
    keys = {key: _value(value) for key, value in blueprint.metadata.items()}
    return {**keys, "tokenizer.ggml.model": "no_vocab"}


def _value(value: MetadataValue) -> made_up_models.Value:
    return Int32(value) if isinstance(value, list) else value


def _plans(blueprint: Blueprint) -> list[TensorPlan]:
    return [TensorPlan(t.name, t.shape, quants()[t.type].ggml_type, t.bytes) for t in blueprint.tensors]


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="file names in the catalogue")
    parser.add_argument("--quant", default="Q4_K_M")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for stem in asked.models or well_known():
        size = write_header(well_known()[stem], asked.quant, asked.folder / f"{stem}.gguf")
        print(f"{stem} {asked.quant} {size:_}")


if __name__ == "__main__":
    main()
