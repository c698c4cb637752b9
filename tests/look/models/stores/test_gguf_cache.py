"""The llama.cpp cache in both layouts; the new one as written by llama-server."""

import shutil

from stored import extracted

from unslow.look.models.stores import Surroundings, gguf_cache, with_header
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def found(place):
    return {m.name: with_header(SYSTEM, m) for m in gguf_cache.find(SYSTEM, str(place)).models}


def test_the_llama_cpp_cache_in_hub_layout_is_listed(tmp_path):
    models = found(extracted(tmp_path) / "llama")
    assert set(models) == {"acme/tiny-GGUF:BF16", "acme/tiny-GGUF/mmproj-tiny-F16"}
    assert models["acme/tiny-GGUF:BF16"].tool == "llama.cpp"
    assert not any(m.broken for m in models.values())


def test_the_flat_llama_cpp_cache_is_listed(tmp_path, wording):
    gguf, cache = extracted(tmp_path) / "ggufs" / "embed.gguf", tmp_path / "flat"
    cache.mkdir()
    shutil.copy(gguf, cache / "ggml-org_my_repo-GGUF_model-name-Q8_0.gguf")
    (cache / "ggml-org_my_repo-GGUF_model-name-Q8_0.gguf.etag").write_text("x")
    (cache / "manifest=ggml-org=my_repo-GGUF=latest.json").write_text("{}")
    shutil.copy(gguf, cache / "somebody_else_x-Q4_0.gguf")
    (cache / "a_b_c-Q4_0.gguf.downloadInProgress").write_text("GGUF")
    models = found(cache)
    assert set(models) == {"ggml-org/my_repo-GGUF:Q8_0", "somebody_else_x-Q4_0", "a_b_c-Q4_0"}
    wording(models["a_b_c-Q4_0"].broken)
    assert gguf_cache.claims([path.name for path in cache.iterdir()])


def test_llama_cpp_cache_locations():
    around = Surroundings("/h", {"LLAMA_CACHE": "/x"})
    assert gguf_cache.places(SYSTEM, around) == ["/x", "/h/.cache/llama.cpp", "/h/Library/Caches/llama.cpp"]
