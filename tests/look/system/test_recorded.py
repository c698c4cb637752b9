"""A recording answers as the live system did."""

import msgspec
import pytest
from doubles import FakeSystem

from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system import Answer, FinishedCommand, Line, LookError
from unslow.look.system.recorded import INDEX, RecordedSystem, Recorder, is_recording, without_prompts


def world() -> FakeSystem:
    return FakeSystem(
        files={
            "/proc/stat": "cpu 1 2 3",
            "/proc/7/environ": "LLAMA_ARG_THREADS=4\0LLAMA_API_KEY=hush\0HF_TOKEN=hush\0HOME=/home/eve",
            "/proc/7/cmdline": "llama-server\0--api-key\0hush\0-m\0/home/eve/m.gguf\0",
        },
        folders={"/proc": ["7", "stat"]},
        links={"/proc/7/cwd": "/home/eve"},
        commands={"lscpu": FinishedCommand(0, "CPU(s): 2", "")},
        http={"GET http://127.0.0.1:1/props": Answer(200, b'{"a": 1}', "application/json")},
        streams={"http://127.0.0.1:1/completion": [Line(0.1, "data: 1"), Line(0.2, "data: 2")]},
        asks={"nvml": {"gpus": [], "owner": "/home/eve"}},
    )


def ask_everything(system):
    return (
        system.read_bytes("/proc/stat"),
        system.read_tail("/proc/stat", 300),
        system.list_dir("/proc"),
        system.run(["lscpu"]),
        system.request("GET", "http://127.0.0.1:1/props"),
        list(system.stream("http://127.0.0.1:1/completion", {})),
        system.ask("nvml", dict)["gpus"],
        system.now(),
        system.clock(),
        system.clock(),
    )


def test_a_recording_gives_the_same_answers(tmp_path):
    recorder = Recorder(world(), tmp_path)
    first = ask_everything(recorder)
    with pytest.raises(LookError):
        recorder.read_bytes("/missing")
    recorder.close()
    assert is_recording(tmp_path)
    replay = RecordedSystem(tmp_path)
    assert ask_everything(replay) == first
    with pytest.raises(LookError, match="not there") as caught:
        replay.read_bytes("/missing")
    assert caught.value.absence is Absence.NOT_FOUND


def test_a_question_that_was_not_recorded_is_not_looked(tmp_path, wording):
    Recorder(world(), tmp_path).close()
    with pytest.raises(LookError) as caught:
        RecordedSystem(tmp_path).read_bytes("/proc/stat")
    wording(caught.value.why, tells="/proc/stat")
    assert caught.value.absence is Absence.NOT_LOOKED


def test_names_and_keys_are_masked_in_a_recording(tmp_path):
    recorder = Recorder(world(), tmp_path)
    recorder.read_bytes("/proc/7/environ")
    recorder.read_bytes("/proc/7/cmdline")
    recorder.read_link("/proc/7/cwd")
    recorder.ask("nvml", dict)
    recorder.close()
    text = (tmp_path / INDEX).read_text()
    assert "hush" not in text
    assert "eve" not in text
    replay = RecordedSystem(tmp_path)
    assert replay.read_bytes("/proc/7/environ") == b"LLAMA_ARG_THREADS=4\0LLAMA_API_KEY=masked"
    assert replay.read_bytes("/proc/7/cmdline") == b"llama-server\0--api-key\0masked\0-m\0/home/user/m.gguf\0"


def test_prompts_are_not_recorded(tmp_path):
    slots = [{"id": 0, "prompt": "Dear diary", "generated": "Dear you", "n_ctx": 5}]
    door = FakeSystem(http={"GET http://127.0.0.1:1/slots": Answer(200, msgspec.json.encode(slots))})
    recorder = Recorder(door, tmp_path)
    assert recorder.request("GET", "http://127.0.0.1:1/slots").json() == slots
    recorder.close()
    assert "Dear" not in (tmp_path / INDEX).read_text()
    assert RecordedSystem(tmp_path).request("GET", "http://127.0.0.1:1/slots").json() == [{"id": 0, "n_ctx": 5}]
    assert without_prompts("Dear diary, " * 50) == ""


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff", b'{"question": 3}', b"[" * 100_000])
def test_a_damaged_recording_is_a_user_error(tmp_path, line):
    (tmp_path / INDEX).write_bytes(line + b"\n")
    with pytest.raises(UserError, match="line 1"):
        RecordedSystem(tmp_path)


def test_a_recorded_answer_of_the_wrong_type_is_a_failed_look(tmp_path):
    (tmp_path / INDEX).write_bytes(b'{"question":"folder /proc","answer":3}\n{"question":"file /x","answer":[1]}\n')
    replay = RecordedSystem(tmp_path)
    with pytest.raises(LookError, match="is not valid"):
        replay.list_dir("/proc")
    with pytest.raises(LookError, match="is not valid"):
        replay.read_bytes("/x")


def test_repeated_answers_are_written_once(tmp_path):
    recorder = Recorder(FakeSystem(files={"/proc/7/stat": "7 (x) " + "0 " * 200}), tmp_path)
    first = [recorder.read_bytes("/proc/7/stat") for _ in range(50)]
    recorder.close()
    assert (tmp_path / INDEX).stat().st_size < 4000
    replay = RecordedSystem(tmp_path)
    assert [replay.read_bytes("/proc/7/stat") for _ in range(50)] == first


def test_a_recorded_stream_is_compressed_and_replays_identically(tmp_path):
    lines = [Line(n / 97, f'data: {{"content": "word {n}", "stop": false}}') for n in range(500)]
    recorder = Recorder(FakeSystem(streams={"http://x/c": lines}), tmp_path)
    heard = list(recorder.stream("http://x/c", {}))
    recorder.close()
    assert list(RecordedSystem(tmp_path).stream("http://x/c", {})) == heard
    assert (tmp_path / INDEX).stat().st_size < sum(len(line.text) for line in lines) / 3


def test_a_broken_stream_replays_up_to_the_break(tmp_path):
    class Breaking(FakeSystem):
        def stream(self, url, body, headers=None, timeout_s=0, silence_s=0):
            yield Line(0.5, "data: 1")
            raise LookError("broke off")

    recorder = Recorder(Breaking(), tmp_path)
    with pytest.raises(LookError):
        list(recorder.stream("http://x/c", {}))
    recorder.close()
    replay, heard = RecordedSystem(tmp_path).stream("http://x/c", {}), []
    with pytest.raises(LookError, match="broke off"):
        heard.extend(replay)
    assert next(RecordedSystem(tmp_path).stream("http://x/c", {})) == Line(0.5, "data: 1")


def test_a_partly_read_stream_is_recorded_so_far(tmp_path):
    recorder = Recorder(world(), tmp_path)
    stream = recorder.stream("http://127.0.0.1:1/completion", {})
    next(stream)
    stream.close()
    recorder.close()
    assert list(RecordedSystem(tmp_path).stream("http://127.0.0.1:1/completion", {})) == [Line(0.1, "data: 1")]


@pytest.mark.parametrize("answer", ['"no base64!"', '"aGVsbG8="', "7", "[[1, 2, 3]]"])
def test_a_damaged_recorded_stream_is_a_failed_look(tmp_path, answer):
    (tmp_path / INDEX).write_text(f'{{"question":"stream http://x/c","answer":{answer}}}\n')
    with pytest.raises(LookError, match="is not valid"):
        list(RecordedSystem(tmp_path).stream("http://x/c", {}))


def test_extra_clock_reads_do_not_shift_replayed_time(tmp_path):
    recorder = Recorder(world(), tmp_path)
    times = []
    for _ in range(3):
        recorder.read_bytes("/proc/stat")
        times.append(recorder.clock())
    recorder.close()
    replay, again = RecordedSystem(tmp_path), []
    for _ in range(3):
        replay.read_bytes("/proc/stat")
        again.append(replay.clock())
        replay.clock()  # which the one who recorded did not do
    assert again == times


def test_the_users_key_is_not_recorded(tmp_path):
    key = "sk-canary-5f3a9c17"
    door = FakeSystem(
        http={"GET http://x/props": Answer(200, key.encode())}, streams={"http://x/c": [Line(0.1, f"data: {key}")]}
    )
    recorder = Recorder(door, tmp_path, [key])
    recorder.request("GET", "http://x/props")
    list(recorder.stream("http://x/c", {}))
    recorder.close()
    assert key not in (tmp_path / INDEX).read_text()
    assert key not in str(list(RecordedSystem(tmp_path).stream("http://x/c", {})))


def test_prompts_in_logs_are_not_recorded(tmp_path):
    lines = [
        'srv  log_server_r: request:  {"prompt": "zebra harvest"}',
        'time=2026-01-01T10:00:00Z level=DEBUG msg="chat request" images=0 prompt="zebra harvest"',
        "INFO 01-01 10:00:00 logger.py:39] Received request cmpl-1: prompt: 'two\nzebra harvest', params: X(n=1)",
        "slot print_timing: id  0 | task 0 | prompt eval time = 12.00 ms /  5 tokens",
    ]
    text = "the rest of a zebra harvest\n" + "\n".join(lines)
    recorder = Recorder(FakeSystem(files={"/var/log/llama.log": text}), tmp_path)
    recorder.read_tail("/var/log/llama.log", len(text))
    recorder.close()
    kept = (tmp_path / "recording.jsonl").read_text(encoding="utf-8")
    assert "zebra" not in kept
    assert "prompt eval time = 12.00 ms" in kept
