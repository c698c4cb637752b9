import json

import pytest

from unslow.facts.errors import UserError
from unslow.facts.stored_model import Inventory, Kind, Place, StoredFile, StoredModel
from unslow.show.models import render_models
from unslow.show.units import count

LONG = StoredModel(
    name="lmstudio-community/Some-Very-Long-Model-Name-24B-Instruct-2506-GGUF:Q4_K_M",
    tool="LM Studio",
    format="gguf",
    architecture="llama",
    quant="Q4_K_M",
    parameters=23_572_403_200,
    size_bytes=14_333_908_832,
    path="/home/me/.lmstudio/models/lmstudio-community/Some-Very-Long-Model-Name-24B-Instruct-2506-GGUF/x.gguf",
    files=(StoredFile("x.gguf", 14_333_908_832, "1:2"),),
)
BROKEN = StoredModel(
    name="half", tool="folder", place="/mnt/a/very/long/path/to/models", broken="80000000 bytes are missing"
)
ASIDE = StoredModel(name="imatrix", tool="folder", kind=Kind.OTHER, size_bytes=4000)
HOSTILE = StoredModel(name="a\x1b[31mb\nc", tool="Ollama", architecture="\x07", quant="\u202e")
ALL = Inventory(
    models=(LONG, BROKEN, ASIDE, HOSTILE),
    places=(Place("Ollama", "/home/me/.ollama/models", "/home/me/.ollama/models: not there"), Place("folder", "/mnt")),
    total_bytes=14_333_912_832,
    notices=("/mnt: 5000000000 bytes lie in blobs that belong to no model",),
)
NONE = Inventory(models=(), places=ALL.places, total_bytes=0)


def shown(inventory, width=100, **more):
    return render_models(inventory, "terminal", width=width, color=False, **more)


def test_every_model_has_one_line_with_size_quant_and_tool(wording):
    text = shown(ALL, 120)
    assert "KIND" in text
    assert all(word in text for word in ("23.6B", "Q4_K_M", "13.3 GiB", "LM Studio", "llama"))
    wording(text, about="13.3 GiB", tells="--all")
    assert "imatrix" not in text
    assert "/home/me/.lmstudio" not in text


def test_only_300_models_are_shown_without_all(wording):
    crowd = Inventory(models=(LONG,) * 1000, places=(), total_bytes=0)
    text = shown(crowd, 200)
    assert text.count("Some-Very-Long") == 300
    wording(text, about="--all", tells=("1000", "700"))


def test_reasons_and_notices_use_binary_units(wording):
    text = shown(ALL)
    wording(text, about="76 MiB")
    assert "4.7 GiB" in text


def test_all_shows_paths_and_search_folders():
    text = shown(ALL, 200, everything=True)
    assert LONG.path in text
    assert "imatrix" in text
    assert "4 KiB" in text
    assert "/home/me/.ollama/models: not there" in text


def test_empty_inventory_says_which_folders_were_searched(wording):
    text = shown(NONE)
    wording(text, tells=("/home/me/.ollama/models", "/mnt"))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("everything", [False, True])
def test_lines_fit_the_terminal_width(width, everything):
    lines = shown(ALL, width, everything=everything).splitlines()
    assert all(len(line) <= width for line in lines)
    assert any("GiB" in line for line in lines)


def test_model_names_send_no_escape_sequences():
    text = shown(ALL, everything=True)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "b c" in text


def test_json_holds_every_model_and_field():
    inventory = json.loads(render_models(ALL, "json", width=80, color=False))
    assert inventory["schema"] == "unslow.models/1"
    assert inventory["total_bytes"] == ALL.total_bytes
    assert {
        "name",
        "tool",
        "kind",
        "format",
        "architecture",
        "quant",
        "parameters",
        "size_bytes",
        "path",
        "broken",
    } <= set(inventory["models"][0])
    assert len(inventory["models"]) == 4
    assert inventory["models"][1]["parameters"] is None


def test_only_terminal_and_json_formats_are_accepted():
    for form in ("terminal", "json"):
        render_models.check_format(form)
    with pytest.raises(UserError, match="xml"):
        render_models.check_format("xml")


def test_counts_have_three_significant_digits():
    assert [count(n) for n in (999, 134_515_008, 8_030_261_312, 671_026_419_200, 1.04e12)] == [
        "999",
        "135M",
        "8.03B",
        "671B",
        "1.04T",
    ]
