"""A cache written by huggingface_hub."""

import pytest
from stored import extracted

from unslow.facts.stored_model import Kind
from unslow.look.models.stores import Surroundings, huggingface, with_header
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


@pytest.fixture
def hub(tmp_path):
    return extracted(tmp_path) / "hf" / "hub"


def found(hub):
    return {m.name: with_header(SYSTEM, m) for m in huggingface.find(SYSTEM, str(hub)).models}


def test_hub_models_have_names_kinds_and_sizes(hub):
    models = found(hub)
    assert set(models) == {
        "acme/tiny-llama",
        "acme/tiny-llama@05829ae",
        "acme/tiny-sharded",
        "acme/tiny-GGUF:F16",
        "acme/tiny-GGUF:BF16",
        "acme/tiny-GGUF/mmproj-tiny-F16",
    }
    assert all(not m.broken for m in models.values())
    assert all(m.place == str(hub) for m in models.values())
    split = models["acme/tiny-GGUF:BF16"]
    assert len(split.files) == 2
    assert split.size_bytes == sum(f.bytes for f in split.files)
    assert split.path.endswith("tiny-BF16-00001-of-00002.gguf")
    assert (split.architecture, split.parameters) == ("llama", 328)


def test_hub_safetensors_single_and_sharded_are_read(hub):
    models = found(hub)
    assert (models["acme/tiny-llama"].parameters, models["acme/tiny-sharded"].parameters) == (464, 864)
    assert len(models["acme/tiny-sharded"].files) == 2
    assert {m.quant for m in models.values() if m.format == "safetensors"} == {"F16"}


def test_an_old_hub_revision_is_superseded(hub):
    models = found(hub)
    assert models["acme/tiny-llama@05829ae"].superseded
    assert not models["acme/tiny-llama"].superseded
    same = [models[name].files[0].inode for name in ("acme/tiny-llama", "acme/tiny-llama@05829ae")]
    assert same[0] == same[1]


def test_hub_revisions_without_a_branch_are_all_listed(hub):
    (hub / "models--acme--tiny-llama" / "refs" / "main").unlink()
    names = [name for name, model in found(hub).items() if name.startswith("acme/tiny-llama@") and not model.superseded]
    assert len(names) == 2


def test_a_projector_belongs_to_the_models_in_and_below_its_folder(hub):
    models = found(hub)
    projector = models["acme/tiny-GGUF/mmproj-tiny-F16"]
    assert projector.kind is Kind.PROJECTOR
    assert models["acme/tiny-GGUF:F16"].projectors == (projector.path,)
    assert models["acme/tiny-GGUF:BF16"].projectors == (projector.path,)
    assert projector.projectors == ()


def test_a_deleted_blob_makes_the_model_broken(hub, wording):
    for blob in (hub / "models--acme--tiny-sharded" / "blobs").iterdir():
        blob.unlink()
    wording(found(hub)["acme/tiny-sharded"].broken)


def test_a_part_that_was_not_downloaded_makes_the_model_broken(hub):
    next((hub / "models--acme--tiny-sharded").glob("snapshots/*/model-00002-*")).unlink()
    assert found(hub)["acme/tiny-sharded"].broken == "model-00002-of-00002.safetensors is missing"


def test_unfinished_downloads_are_noticed(hub, wording):
    (hub / "models--acme--tiny-llama" / "blobs" / "abc.1234.incomplete").write_text("x")
    wording(huggingface.find(SYSTEM, str(hub)).notices)


def test_datasets_are_skipped(hub):
    (hub / "datasets--acme--texts" / "snapshots" / "1").mkdir(parents=True)
    (hub / "datasets--acme--texts" / "snapshots" / "1" / "x.gguf").write_text("GGUF")
    assert not [name for name in found(hub) if "texts" in name]


@pytest.mark.parametrize(
    ("variables", "places"),
    [
        ({}, ["/h/.cache/huggingface/hub"]),
        ({"HF_HOME": "/x"}, ["/x/hub", "/h/.cache/huggingface/hub"]),
        ({"HF_HUB_CACHE": "/y", "HF_HOME": "/x"}, ["/y", "/h/.cache/huggingface/hub"]),
        ({"HUGGINGFACE_HUB_CACHE": "/z"}, ["/z", "/h/.cache/huggingface/hub"]),
        ({"XDG_CACHE_HOME": "/c"}, ["/c/huggingface/hub"]),
    ],
)
def test_hub_locations_follow_the_environment(variables, places):
    assert huggingface.places(SYSTEM, Surroundings("/h", variables)) == places
