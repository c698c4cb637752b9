"""GGUF models from files, split parts, a pipe, and a recording."""

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from doubles import FakeSystem
from gguf_bytes import header, info

from unslow.catalog.architectures import made_up_shapes
from unslow.facts.model import Tensor
from unslow.facts.values import Absence
from unslow.look.engine.made_up_models import TensorPlan, encoded_header, planned_model, write_model
from unslow.look.models.gguf import Gguf, blueprint, model_facts, part_paths, read_gguf, read_gguf_pipe, shortfall
from unslow.look.models.gguf.window import PipeSource
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

MACHINES = Path(__file__).parents[3] / "machines"
LIVE = LiveSystem()


def made_up(path: Path, shape: str = "tiny", quant: str = "Q4_K_M") -> Path:
    with path.open("wb") as file:
        write_model(planned_model(made_up_shapes()[shape], quant, f"made-up {shape}"), file)
    return path


def test_a_generated_model_is_read_to_the_byte(tmp_path):
    path = made_up(tmp_path / "tiny.gguf")
    plan = planned_model(made_up_shapes()["tiny"], "Q4_K_M", "made-up tiny")
    found = read_gguf(LIVE, str(path))
    assert [(t.name, t.shape, t.bytes) for t in blueprint(found).tensors] == [
        (t.name, t.dimensions, t.bytes) for t in plan.tensors
    ]
    assert (found.file_bytes, found.missing_bytes, shortfall(found)) == (path.stat().st_size, 0, "")
    model = model_facts(found)
    assert model.made_up.value is True
    assert (model.layers.value, model.vocabulary.value, model.quant.value) == (2, 1024, "Q4_K_M")
    assert model.weights_bytes.value == sum(t.bytes for t in plan.tensors)


def test_the_blueprint_has_what_memory_is_calculated_from(tmp_path):
    path = made_up(tmp_path / "tiny.gguf")
    found = blueprint(read_gguf(LIVE, str(path)))
    assert (found.architecture, found.vocabulary, found.file_bytes) == ("llama", 1024, path.stat().st_size)
    assert found.count("block_count") == 2
    assert found.by_name["token_embd.weight"] == Tensor("token_embd.weight", "Q4_K", (256, 1024), 1024 * 144)


def test_a_recorded_gguf_replays_identically(tmp_path):
    path = str(made_up(tmp_path / "tiny.gguf"))
    recorder = Recorder(LIVE, tmp_path / "recording")
    seen = read_gguf(recorder, path)
    recorder.close()
    Path(path).unlink()
    again = read_gguf(RecordedSystem(tmp_path / "recording"), path)
    assert again == seen
    assert blueprint(again) == blueprint(seen)


def test_a_recording_without_tensors_gives_facts_but_no_blueprint(wording):
    system = RecordedSystem(MACHINES / "h200_live_healthy")
    found = read_gguf(system, "/proc/442/root/srv/llm/llama8b.gguf")
    assert model_facts(found).weights_bytes.value == 4_912_898_048
    with pytest.raises(LookError) as caught:
        blueprint(found)
    wording(caught.value.why, tells="llama8b.gguf")
    assert caught.value.absence is Absence.NOT_LOOKED


def test_an_edited_gguf_recording_is_a_failed_look():
    with pytest.raises(LookError, match="is not valid"):
        read_gguf(FakeSystem(asks={"gguf m.gguf": {"path": 3}}), "m.gguf")


def test_a_truncated_download_is_read_and_reports_missing_bytes(tmp_path, wording):
    path = made_up(tmp_path / "tiny.gguf")
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    found = read_gguf(LIVE, str(path))
    assert found.missing_bytes == 1000
    assert blueprint(found).by_name[found.cut_tensor].bytes >= 1000
    wording(shortfall(found), tells=(str(path), "1000", str(found.cut_tensor)))


def write_parts(folder: Path, count: int = 3, **more: int) -> list[Path]:
    paths = [folder / f"m-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]
    for n, path in enumerate(paths):
        metadata = {"split.no": n, "split.count": count, **more}
        metadata |= (
            {"general.architecture": "llama", "llama.block_count": count} if n == 0 else {"llama.block_count": 9}
        )
        plans = [TensorPlan(f"blk.{n}.ffn_up.weight", (256, 4), 12, 576)]
        path.write_bytes(encoded_header(metadata, plans) + bytes(576))
    return paths


def test_all_parts_of_a_split_model_are_read_from_any_part(tmp_path):
    paths = write_parts(tmp_path)
    os.truncate(paths[1], paths[1].stat().st_size - 76)
    for path in paths:
        found = read_gguf(LIVE, str(path))
        assert found.tensors.layer_bytes == [576, 576, 576]
        assert (found.metadata["llama.block_count"], found.metadata["split.no"]) == (3, 0)
        assert found.file_bytes == sum(p.stat().st_size for p in paths)
        assert (found.missing_bytes, found.cut_tensor) == (76, "blk.1.ffn_up.weight")


def test_a_missing_part_is_named(tmp_path, wording):
    paths = write_parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(LookError, match=r"00002-of-00003\.gguf: not there") as caught:
        read_gguf(LIVE, str(paths[0]))
    assert caught.value.absence is Absence.NOT_FOUND
    wording(caught.value.how_to_get)


def test_a_renamed_part_is_refused(tmp_path, wording):
    first = write_parts(tmp_path)[0].rename(tmp_path / "m.gguf")
    with pytest.raises(LookError) as refused:
        read_gguf(LIVE, str(first))
    wording(refused.value.why, tells=("m.gguf", "3 parts"))


def test_mixed_up_parts_are_refused(tmp_path, wording):
    paths = write_parts(tmp_path)
    paths[2].write_bytes(paths[1].read_bytes())
    with pytest.raises(LookError) as refused:
        read_gguf(LIVE, str(paths[0]))
    wording(refused.value.why, tells=("00003-of-00003.gguf", "part 3", "part 2"))
    write_parts(tmp_path, **{"split.count": 4})
    with pytest.raises(LookError) as refused:
        read_gguf(LIVE, str(paths[0]))
    wording(refused.value.why, tells="4 parts")


def test_a_tensor_in_two_parts_is_refused(tmp_path, wording):
    for n in (1, 2):
        (tmp_path / f"m-0000{n}-of-00002.gguf").write_bytes(header(1, 0, info(b"t", (1,))))
    with pytest.raises(LookError) as refused:
        read_gguf(LIVE, str(tmp_path / "m-00001-of-00002.gguf"))
    wording(refused.value.why, tells="'t'")


@pytest.mark.parametrize("name", ["m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-99999.gguf"])
def test_impossible_part_numbers_are_refused(name):
    with pytest.raises(LookError, match="out of range"):
        part_paths(name)


def test_pipes_folders_and_devices_are_not_opened(tmp_path, wording):
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "pipe.gguf", tmp_path, Path("/dev/zero")):
        with pytest.raises(LookError) as refused:
            read_gguf(LIVE, str(path))
        wording(refused.value.why, tells=str(path))


@pytest.mark.parametrize("path", ["/nowhere/m.gguf", "bad\0name.gguf"])
def test_a_missing_path_is_a_look_error(path):
    with pytest.raises(LookError):
        read_gguf(LIVE, path)


def test_the_refusal_names_the_file(tmp_path, wording):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0))
    with pytest.raises(LookError) as refused:
        read_gguf(LIVE, str(path))
    wording(refused.value.why, tells=("x.gguf: ", str(2**60)))


def piped(data: bytes, *, keep_open: bool = False) -> Gguf:
    """The header from a pipe that somebody else writes into."""
    reader, writer = os.pipe()

    def feed() -> None:
        try:
            os.write(writer, data[:7])
            with open(writer, "wb", closefd=not keep_open) as file:
                file.write(data[7:])
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        return read_gguf_pipe(LIVE, reader)
    finally:
        os.close(reader)
        thread.join()
        if keep_open:
            os.close(writer)


def test_a_pipe_is_read_only_up_to_its_header(tmp_path):
    words = [f"word{n}" for n in range(100_000)]
    plans = [TensorPlan("token_embd.weight", (256, 100_000), 12, 14_400_000)]
    data = encoded_header({"tokenizer.ggml.tokens": words, "tokenizer.chat_template": "x" * 10**6}, plans)
    found = piped(data + bytes(14_400_000))
    assert blueprint(found).tensors == [Tensor("token_embd.weight", "Q4_K", (256, 100_000), 14_400_000)]
    assert (found.path, found.file_bytes, found.missing_bytes) == ("-", 0, 0)
    assert blueprint(found).vocabulary == 100_000


def test_a_pipe_that_stays_open_does_not_block():
    assert piped(header(1, 0, info(b"t", (4,))), keep_open=True).tensors.bytes == 16


def test_a_pipe_that_ends_too_soon_is_a_look_error(wording):
    with pytest.raises(LookError) as refused:
        piped(encoded_header({"a": "b" * 100_000, "c": 1}, [])[:-8])
    wording(refused.value.why, tells="standard input")


def test_a_pipe_that_claims_a_petabyte_is_refused(wording):
    with pytest.raises(LookError) as refused:
        piped(header(0, 1, struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 2**50)))
    wording(refused.value.why)


def test_a_silent_pipe_is_a_look_error():
    reader, writer = os.pipe()
    with pytest.raises(LookError, match="sent nothing for"):
        PipeSource(reader, silence_s=0.01).read(0, 1, 1)
    os.close(reader)
    os.close(writer)


CODE = "from unslow.look.models.gguf import *\nfrom unslow.look.system.live import LiveSystem\n"
CODE += "gguf = read_gguf_pipe(LiveSystem())\nprint(gguf.file_bytes, gguf.tensors.count)"


def test_standard_input_may_be_a_file(tmp_path):
    path = made_up(tmp_path / "tiny.gguf")
    with path.open("rb") as file:
        out = subprocess.run(
            [sys.executable, "-c", CODE], stdin=file, capture_output=True, text=True, check=True
        ).stdout
    assert out.split() == [str(path.stat().st_size), str(read_gguf(LIVE, str(path)).tensors.count)]


def test_a_terminal_as_model_is_a_look_error():
    controller, terminal = os.openpty()
    with pytest.raises(LookError, match="is a terminal"):
        read_gguf_pipe(LIVE, terminal)
    os.close(controller)
    os.close(terminal)
