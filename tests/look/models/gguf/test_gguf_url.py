"""GGUF models on a web server: only their headers are fetched."""

import pytest
from gguf_bytes import header, info
from web_server import web_server, with_ranges, without_ranges

from unslow.facts.model import Tensor
from unslow.facts.values import Absence
from unslow.look.engine.made_up_models import Float32, TensorPlan, encoded_header
from unslow.look.models.gguf import blueprint, read_gguf_url
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

LIVE = LiveSystem()
WORDS = [f"word{n}" for n in range(150_000)]
METADATA = {
    "general.architecture": "llama",
    "tokenizer.ggml.tokens": WORDS,
    "tokenizer.ggml.scores": Float32([0.0] * 600_000),
}
WEIGHTS = 16 * 1024**2
MODEL = encoded_header(METADATA, [TensorPlan("output.weight", (256, WEIGHTS // 144), 12, WEIGHTS // 144 * 144)])
MODEL += bytes(WEIGHTS // 144 * 144)


@pytest.mark.parametrize("behaviour", [with_ranges, without_ranges])
def test_only_the_header_of_a_remote_model_is_fetched(behaviour):
    with web_server({"/m.gguf": MODEL}, behaviour) as server:
        found = read_gguf_url(LIVE, f"{server.url}/m.gguf?download=true")
    assert blueprint(found).tensors == [Tensor("output.weight", "Q4_K", (256, WEIGHTS // 144), WEIGHTS // 144 * 144)]
    assert (found.file_bytes, found.missing_bytes) == (len(MODEL), 0)
    assert blueprint(found).vocabulary == 150_000
    if behaviour is with_ranges:
        assert server.sent_bytes < 8 * 1024**2


def test_all_parts_of_a_remote_model_are_read():
    parts = {f"/m-0000{n}-of-00002.gguf": header(1, 0, info(b"t%d" % n, (4,))) for n in (1, 2)}
    with web_server(parts) as server:
        found = read_gguf_url(LIVE, f"{server.url}/m-00002-of-00002.gguf?download=true")
    assert [t.name for t in blueprint(found).tensors] == ["t1", "t2"]
    assert [a.split()[0] for a in server.asked] == [f"{part}?download=true" for part in parts]


def test_an_address_that_is_not_one_is_refused():
    with pytest.raises(LookError, match="not a URL"):
        read_gguf_url(LIVE, "http://[::1/m.gguf")


def test_a_missing_remote_part_is_named():
    why = pytest.raises(LookError, match=r"00002-of-00002\.gguf: answers 404")
    with web_server({"/m-00001-of-00002.gguf": header(0, 0)}) as server, why as caught:
        read_gguf_url(LIVE, f"{server.url}/m-00001-of-00002.gguf")
    assert caught.value.absence is Absence.NOT_FOUND


def test_a_truncated_remote_model_reports_missing_bytes():
    with web_server({"/m.gguf": MODEL[:-1000]}) as server:
        assert read_gguf_url(LIVE, f"{server.url}/m.gguf").missing_bytes == 1000
    with web_server({"/m.gguf": MODEL[:1_500_000]}) as server, pytest.raises(LookError, match="truncated"):
        read_gguf_url(LIVE, f"{server.url}/m.gguf")


def test_an_html_page_is_not_a_gguf_file():
    with web_server({"/m.gguf": b"<!doctype html>"}) as server, pytest.raises(LookError, match="not a GGUF file"):
        read_gguf_url(LIVE, f"{server.url}/m.gguf")


def test_a_recorded_remote_model_replays_identically(tmp_path):
    recorder = Recorder(LIVE, tmp_path)
    with web_server({"/m.gguf": MODEL}) as server:
        url = f"{server.url}/m.gguf"
        seen = read_gguf_url(recorder, url)
    recorder.close()
    assert read_gguf_url(RecordedSystem(tmp_path), url) == seen
