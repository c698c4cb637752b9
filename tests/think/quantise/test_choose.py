"""The type of every tensor in every mix, against llama-quantize (recorded by lab/check_mixes.py)."""

import json
import math
import re
from functools import cache
from pathlib import Path

import pytest

from unslow.catalog.quants import find_mix, mixes, quants
from unslow.facts.errors import UserError
from unslow.think.quantise import WIDE, stored_type, types_of

TRUTH = Path(__file__).with_name("quantise_truth.jsonl")


@cache
def truth() -> tuple[dict, dict[str, dict]]:
    legend, *models = map(json.loads, TRUTH.read_text().splitlines())
    return legend, {m["model"]: m for m in models}


def unpacked(model: dict) -> tuple[list[tuple[str, tuple[int, ...]]], list[list[str]]]:
    """The tensors of a recorded model, and for each case the letters of their types."""
    cases = len(truth()[0]["cases"])
    tensors, types = [], [[] for _ in range(cases)]
    for kind, (layer_runs, shape_runs, picks) in model["tensors"].items():
        layers = [n for first, last in layer_runs for n in range(first, last + 1)]
        shapes = [tuple(shape) for count, shape in shape_runs for _ in range(count)]
        tensors += [(kind.replace("*", str(n)), shape) for n, shape in zip(layers, shapes, strict=True)]
        for into, runs in zip(types, [picks] * cases if picks == "=" else picks.split(","), strict=True):
            into.extend(letters(runs, len(layers)))
    return tensors, types


def letters(runs: str, count: int) -> list[str]:
    if len(runs) == 1:
        return [runs] * count
    return [letter for n, letter in re.findall(r"(\d+)(\D)", runs) for _ in range(int(n))]


@pytest.mark.no_cover  # thousands of tensors tell nothing more of lines
@pytest.mark.parametrize("name", truth()[1])
def test_every_tensor_gets_the_type_that_llama_quantize_picks(name):
    legend, models = truth()
    model, of_letter = models[name], {letter: type_ for type_, letter in legend["letters"].items()}
    architecture, (tensors, picked) = model["architecture"], unpacked(model)
    for case, marks in zip(legend["cases"], picked, strict=True):
        mix, _, matrix = case.partition("+")
        if "!" in marks:
            with pytest.raises(UserError, match=f"cannot make {mix} from rows"):
                types_of(architecture, model["metadata"], tensors, mix)
            continue
        wide = mix if mix in WIDE else "F16"
        unquantised = [stored_type(architecture, *tensor, wide) for tensor in tensors]
        expected = [u if m == "=" else of_letter[m] for u, m in zip(unquantised, marks, strict=True)]
        assert types_of(architecture, model["metadata"], tensors, mix, importance_matrix=bool(matrix)) == expected, case


def test_recording_covers_every_mix():
    assert {case.partition("+")[0] for case in truth()[0]["cases"]} == set(mixes())


def test_mix_that_needs_an_importance_matrix_assumes_one():
    model = truth()[1]["llama-3.1-8b"]
    tensors, _ = unpacked(model)
    asked = ("llama", model["metadata"], tensors)
    for mix in ("IQ3_XXS", "IQ4_XS"):
        needed = find_mix(mix).needs_matrix
        assert types_of(*asked, mix) == types_of(*asked, mix, importance_matrix=needed)
        assert types_of(*asked, mix) != types_of(*asked, mix, importance_matrix=not needed)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("llama-3.1-8b", {"Q4_0": 4.33, "Q4_1": 4.77, "Q4_K_M": 4.58, "Q5_K_M": 5.33, "Q6_K": 6.14, "Q8_0": 7.95}),
        ("llama-2-7b", {"Q4_0": 3.56, "Q4_K_S": 3.59, "Q4_K_M": 3.8, "Q5_K_S": 4.33, "Q5_K_M": 4.45, "F16": 12.55}),
        ("llama-2-70b", {"Q4_0": 36.2, "F16": 128.48}),
        ("mixtral-8x7b", {"Q8_0": 46.22}),
        ("gpt-oss-20b", {"MXFP4": 11.27}),
        ("deepseek-v2-lite", {"F16": 29.26}),
    ],
)
def test_sizes_match_published_files(name, sizes):
    """In GiB, from lab/data/measurements.csv."""
    model = truth()[1][name]
    tensors, _ = unpacked(model)
    for mix, size_gib in sizes.items():
        types = types_of(model["architecture"], model["metadata"], tensors, mix)
        size = sum(
            quants()[t].bytes_of(row) * math.prod(rest) for (_, (row, *rest)), t in zip(tensors, types, strict=True)
        )
        assert size / 2**30 == pytest.approx(size_gib, abs=0.006), mix


def test_tied_token_table_gets_the_type_of_the_output():
    tensors = [("token_embd.weight", (4096, 128256)), ("blk.0.attn_k.weight", (4096, 1024))]
    metadata = {"llama.block_count": 1, "llama.attention.head_count": 32}
    assert types_of("llama", metadata, tensors, "Q4_K_M") == ["Q6_K", "Q4_K"]
    assert types_of("llama", metadata, [*tensors, ("output.weight", (4096, 128256))], "Q4_K_M")[0] == "Q4_K"


def test_hostile_names_and_metadata_are_accepted():
    """More digits than an int accepts, and metadata of the wrong type."""
    name = f"blk.{'9' * 5000}.ffn_down.weight"
    metadata = {"llama.block_count": "many", "llama.attention.head_count": [], "llama.expert_count": float("inf")}
    assert types_of("llama", metadata, [(name, (256, 2))], "Q4_K_M") == ["Q6_K"]


def test_unknown_architecture_is_accepted():
    assert types_of("", {}, [("a.weight", (32, 2)), ("b.weight", ()), ("c", (7, 7))], "Q4_K_M") == [
        "Q5_0",
        "F32",
        "F32",
    ]
