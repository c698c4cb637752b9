"""An Ollama store laid out as by its `manifest` package."""

import json

import msgspec
import pytest
from doubles import FakeSystem
from stored import OllamaStore, checkpoint, extracted

from unslow.facts.stored_model import Kind
from unslow.look.models.stores import Surroundings, ollama, with_header
from unslow.look.models.stores.ollama import Manifest, parse_name, parse_ollama_unit, served_places
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


@pytest.fixture
def ggufs(tmp_path):
    return {path.stem: path.read_bytes() for path in (extracted(tmp_path) / "ggufs").iterdir()}


@pytest.fixture
def store(tmp_path):
    return OllamaStore(tmp_path / "models")


def found(store):
    contents = ollama.find(SYSTEM, str(store.root))
    return {m.name: with_header(SYSTEM, m) for m in contents.models}, contents.notices


def test_an_ollama_model_includes_all_its_layers(store, ggufs):
    store.add(
        "registry.ollama.ai/library/llama3.2/3b",
        [
            store.layer("model", ggufs["rerank"]),
            store.layer("projector", ggufs["mmproj-model-f16"]),
            store.layer("adapter", ggufs["lora"]),
            store.layer("draft", ggufs["embed"]),
            store.layer("template", b"{{ .Prompt }}"),
            store.layer("params", b'{"num_ctx": 8192, "stop": ["<|im_end|>"]}'),
        ],
    )
    model = found(store)[0]["llama3.2:3b"]
    assert (model.kind, model.architecture, model.quant) == (Kind.RERANKER, "qwen3", "F16")
    assert len(model.projectors) == len(model.adapters) == len(model.drafts) == 1
    assert model.settings == {"num_ctx": 8192, "stop": ["<|im_end|>"]}
    assert model.size_bytes == sum(len(ggufs[name]) for name in ("rerank", "mmproj-model-f16", "lora", "embed"))
    assert not model.broken
    assert model.modified_at


def test_ollama_tags_that_share_a_blob_share_an_inode(store, ggufs):
    for tag in ("3b", "latest"):
        store.add(f"registry.ollama.ai/library/llama3.2/{tag}", [store.layer("model", ggufs["embed"])])
    models, notices = found(store)
    assert len({m.files[0].inode for m in models.values()}) == 1
    assert notices == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("registry.ollama.ai/library/llama3.2/3b", "llama3.2:3b"),
        ("registry.ollama.ai/someone/tuned/v1", "someone/tuned:v1"),
        ("hf.co/bartowski/Foo-GGUF/Q4_K_M", "hf.co/bartowski/Foo-GGUF:Q4_K_M"),
        ("registry.ollama.ai/library/llama3.2", ""),
        ("registry.ollama.ai/library/llama3.2/.DS_Store", ""),
    ],
)
def test_ollama_names_come_from_manifest_paths(path, name):
    assert parse_name(path) == name


def test_a_missing_or_truncated_ollama_blob_makes_the_model_broken(store, ggufs, wording):
    path = store.add("hf.co/x/y/z", [store.layer("model", ggufs["embed"])])
    blob = store.root / "blobs" / json.loads(path.read_text())["layers"][0]["digest"].replace(":", "-")
    blob.write_bytes(blob.read_bytes()[:100])
    wording(found(store)[0]["hf.co/x/y:z"].broken, tells=("100", str(len(ggufs["embed"]))))
    blob.unlink()
    assert "is missing" in found(store)[0]["hf.co/x/y:z"].broken


def test_an_ollama_cloud_model_is_remote(store):
    store.add("registry.ollama.ai/library/gpt-oss/120b-cloud", [], remote_host="https://ollama.com:443")
    model = found(store)[0]["gpt-oss:120b-cloud"]
    assert (model.kind, model.broken) == (Kind.REMOTE, "")


def test_ollama_blobs_without_a_model_are_noticed(store, ggufs, wording):
    store.add("hf.co/x/y/z", [store.layer("model", ggufs["embed"])])
    (store.root / "blobs" / f"sha256-{'b' * 64}-partial").write_bytes(bytes(1234))
    (notice,) = found(store)[1]
    wording(notice.removeprefix(str(store.root)), tells="1234 bytes")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"layers": 3}', '{"layers": [{"digest": 3}]}', "[" * 100_000])
def test_an_unreadable_ollama_manifest_makes_the_model_broken(text, store, wording):
    path = store.root / "manifests" / "hf.co" / "x" / "y" / "z"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    wording(found(store)[0]["hf.co/x/y:z"].broken.partition(":")[0])  # what follows are the decoder's words


@pytest.mark.parametrize("digest", ["", "sha256:../../../etc/passwd", "sha256:" + "a" * 63, "md5:" + "a" * 64])
def test_an_invalid_digest_does_not_become_a_path(digest, store):
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 3}
    store.add("hf.co/x/y/z", [layer])
    model = found(store)[0]["hf.co/x/y:z"]
    assert "is missing" in model.broken
    assert model.files == ()


def test_an_ollama_manifest_without_a_model_layer_is_broken(store, wording):
    store.add("hf.co/x/y/z", [store.layer("template", b"x")])
    wording(found(store)[0]["hf.co/x/y:z"].broken)


def test_an_ollama_model_with_one_tensor_per_blob_is_read(store, tmp_path):
    folder = checkpoint("mlx_4bit", tmp_path / "mlx")
    config = json.loads((folder / "config.json").read_text())
    config = {k: v for k, v in config.items() if not k.startswith("quantization")}
    store.add(
        "registry.ollama.ai/library/tiny/mlx",
        [
            store.layer("tensor", _noted(folder / "model.safetensors", quant_type="int4"), name="all"),
            store.layer("json", json.dumps(config).encode(), name="config.json"),
        ],
        model_format="safetensors",
    )
    model = found(store)[0]["tiny:mlx"]
    assert (model.format, model.broken) == ("safetensors", "")
    assert (model.architecture, model.quant, model.parameters) == ("llama", "INT4", 106_816)


def _noted(path, **notes):
    """The file with these notes in its header, as Ollama adds them."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = {**json.loads(data[8 : 8 + length]), "__metadata__": notes}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_a_folder_without_manifests_is_not_an_ollama_store(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(LookError, match="has no manifests"):
        ollama.find(SYSTEM, str(tmp_path))
    with pytest.raises(LookError, match="not found"):
        ollama.find(SYSTEM, str(tmp_path / "nowhere"))


UNIT = '[Service]\nExecStart=/usr/bin/ollama serve\nEnvironment="PATH=/bin"\n'


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('Environment="OLLAMA_MODELS=/data/models"', "/data/models"),
        ("Environment=OLLAMA_HOST=0.0.0.0 OLLAMA_MODELS=/data/models", "/data/models"),
        ("Environment='OLLAMA_MODELS=/data/my models'", "/data/my models"),
        ("#Environment=OLLAMA_MODELS=/data/models", ""),
        ('Environment="OLLAMA_MODELS=/data/models', ""),
        ("", ""),
    ],
)
def test_ollama_models_is_parsed_from_systemd_units(line, place):
    assert parse_ollama_unit(UNIT + line) == place


def test_ollama_model_folders_come_from_processes_and_units():
    system = FakeSystem(
        folders={"/proc": ["1", "7", "8", "self"], "/etc/systemd/system/ollama.service.d": ["override.conf"]},
        files={
            "/proc/1/comm": "systemd\n",
            "/proc/7/comm": "ollama\n",
            "/proc/7/environ": "HOME=/root\0OLLAMA_MODELS=/srv/models\0",
            "/proc/8/comm": "ollama\n",
            "/proc/8/environ": LookError("/proc/8/environ: permission denied"),
            "/proc/8/status": "Name:\tollama\nUid:\t998\t998\t998\t998\n",
            "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nollama:x:998:998::/usr/share/ollama:/bin/false\n",
            "/etc/systemd/system/ollama.service.d/override.conf": 'Environment="OLLAMA_MODELS=/data/models"\n',
        },
    )
    assert served_places(system) == ["/data/models", "/srv/models", "/usr/share/ollama/.ollama/models"]
    around = Surroundings("/home/me", {"OLLAMA_MODELS": "/mine"})
    assert ollama.places(system, around)[:2] == ["/mine", "/data/models"]
    assert ollama.places(FakeSystem(), Surroundings("/h")) == ["/h/.ollama/models", "/usr/share/ollama/.ollama/models"]


def test_an_ollama_manifest_keeps_the_order_of_its_layers():
    data = b'{"layers": [{"digest": "a", "mediaType": "application/vnd.ollama.image.model"}, {"digest": "b"}], "x": 1}'
    manifest = msgspec.json.decode(data, type=Manifest)
    assert [layer.digest for layer in manifest.layers] == ["a", "b"]
    assert [layer.digest for layer in manifest.of("model")] == ["a"]
