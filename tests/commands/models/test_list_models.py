import pytest
from doubles import Quiet
from stored import checkpoint, furnished

from unslow.commands.models import stored as app
from unslow.commands.models.stored import list_models
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return furnished(tmp_path, monkeypatch)


def listed(*where):
    return list_models(LiveSystem(), where, Quiet())


def test_models_are_sorted_by_tool(machine):
    inventory = listed()
    tools = [m.tool for m in inventory.models]
    assert tools == sorted(tools, key=str.casefold)
    assert {"nomic:latest", "nomic:v1.5", "acme/tiny-llama", "pub/repo-GGUF:Q8_0"} <= {m.name for m in inventory.models}
    assert inventory.schema == "unslow.models/1"


def test_shared_blobs_are_counted_once(machine):
    inventory = listed()
    inodes = {file.inode: file.bytes for model in inventory.models for file in model.files}
    assert inventory.total_bytes == sum(inodes.values())
    assert sum(m.size_bytes for m in inventory.models) > inventory.total_bytes


def test_broken_models_are_listed_with_the_reason(machine):
    broken = {m.name: m.broken for m in listed().models if m.broken}
    assert broken == {"hf.co/lost/model:Q4_0": "its blob sha256-000000000000 is missing"}


def test_extra_folders_and_files_are_listed(machine, tmp_path, wording):
    checkpoint("mlx_4bit", tmp_path / "more" / "tiny-mlx")
    more = [m for m in listed(str(tmp_path / "more"), str(tmp_path / "real" / "ggufs" / "lora.gguf")).models if m.place]
    assert {(m.name, m.tool) for m in more} >= {("tiny-mlx", "folder"), ("lora", "file")}
    with pytest.raises(UserError) as caught:
        listed(str(tmp_path / "nowhere"))
    wording(str(caught.value).removeprefix(str(tmp_path)), tells="nowhere")


def test_number_of_described_models_is_limited(machine, monkeypatch, wording):
    monkeypatch.setattr(app, "MOST_DESCRIBED", 2)
    inventory = listed()
    assert len(inventory.models) == 2
    wording(inventory.notices[-1])
