"""The replay server: it answers as recorded, at the requested speed, and fails as requested."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lab.replay import MODES, serve
from lab.replay.answers import FOLDER, Recorded, answer_to, read_answers
from lab.replay.behaviour import FAILURES

from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

ROOT = Path(__file__).parents[2]
FOLDERS = sorted({path.parent for path in FOLDER.glob("*/*.json")})


def ask(url: str, path: str, key: str = ""):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return LiveSystem().request("GET", url + path, None, headers)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_folder_of_answers_can_be_served(folder):
    answers = read_answers(folder)
    assert all(re.match(r"(GET|POST) (/|\*$)", answer.request) for answer in answers)
    with serve(folder.name) as url:
        for answer in answers:
            method, path = answer.request.split()
            if method == "GET" and path != "*":
                assert ask(url, path).status == answer.status


def test_recorded_answers_are_served_and_others_are_404():
    with serve("koboldcpp") as url:
        assert ask(url, "/api/extra/version").json()["version"] == "1.117.1"
        assert ask(url, "/api/extra/version?x=1").json()["result"] == "KoboldCpp"
        assert ask(url, "/nowhere").status == 404
    with serve("lm_studio") as url:
        assert ask(url, "/nowhere").json() == {"error": "Unexpected endpoint or method."}


def test_a_conditional_or_queried_answer_wins():
    general = Recorded("POST /api/show", "", body={"is": "any"})
    special = Recorded("POST /api/show", "", body={"is": "this"}, when={"model": "this"})
    queried = Recorded("GET /props?model=a", "")
    plain = Recorded("GET /props", "")
    answers = [special, general, plain, queried]
    assert answer_to(answers, "POST", "/api/show", {"model": "this", "verbose": True}) is special
    assert answer_to(answers, "POST", "/api/show", {"model": "other"}) is general
    assert answer_to(answers, "POST", "/api/show", "no object") is general
    assert answer_to(answers, "GET", "/props?model=a", None) is queried
    assert answer_to(answers, "GET", "/props?model=b", None) is plain
    assert answer_to(answers, "GET", "/slots", None) is None


def test_only_the_right_key_is_accepted():
    with serve("lm_studio", api_key="right") as url:
        assert ask(url, "/api/v1/models").status == 401
        assert ask(url, "/api/v1/models", "wrong").status == 401
        assert ask(url, "/api/v1/models", "right").status == 200


def test_loading_and_missing_apply_to_every_path():
    with serve("llama_cpp", fail="loading") as url:
        answer = ask(url, "/health")
        assert (answer.status, answer.json()["error"]["message"]) == (503, "Loading model")
    with serve("llama_cpp", fail="missing") as url:
        assert ask(url, "/health").status == 404


def test_events_have_usage_if_requested():
    body = {
        "model": "m",
        "prompt": "x" * 400,
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with serve("mlx_lm", tokens_per_s=2000) as url:
        lines = [line.text for line in LiveSystem().stream(f"{url}/v1/completions", body)]
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert [len(event["choices"][0]["text"]) > 0 for event in events[:5]] == [True] * 5
    assert events[-1]["usage"] == {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    assert [line for line in lines if line][-1] == "data: [DONE]"


def test_an_unstreamed_chat_comes_in_one_answer():
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
    with serve("lm_studio_v0", tokens_per_s=1000) as url:
        answer = LiveSystem().request("POST", f"{url}/api/v0/chat/completions", body).json()
    assert answer["choices"][0]["message"]["content"].split() == ["The", "quick", "brown"]
    assert answer["stats"]["tokens_per_second"] == 1000


def test_ollama_lines_end_with_times_matching_the_speed():
    body = {"model": "m", "prompt": "x" * 800, "options": {"num_predict": 10}}
    with serve("mlx_lm", tokens_per_s=500, prompt_tokens_per_s=10_000) as url:
        lines = [json.loads(line.text) for line in LiveSystem().stream(f"{url}/api/generate", body) if line.text]
    assert [line["done"] for line in lines] == [False] * 10 + [True]
    last = lines[-1]
    assert last["eval_count"] / last["eval_duration"] * 1e9 == pytest.approx(500)
    assert last["prompt_eval_count"] / last["prompt_eval_duration"] * 1e9 == pytest.approx(10_000)
    assert last["total_duration"] > last["eval_duration"] + last["prompt_eval_duration"]


def test_a_recorded_stream_is_served_line_by_line():
    with serve("llama_cpp") as url:
        lines = [line.text for line in LiveSystem().stream(f"{url}/completion", {"prompt": "x", "stream": True})]
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert events[-1]["timings"]["predicted_n"] == 12
    assert [event["stop"] for event in events] == [False] * 11 + [True]


def test_a_cut_stream_is_an_error():
    with serve("llama_cpp", fail="cut") as url, pytest.raises(LookError, match="broke off"):
        list(LiveSystem().stream(f"{url}/completion", {"prompt": "x"}))


def test_invalid_replay_arguments_are_refused(tmp_path, wording):
    def refusal(*folder, **flags):
        with pytest.raises(ValueError) as error, serve("mlx_lm", *folder, **flags):  # noqa: PT011 (its words are stored)
            pass
        return str(error.value)

    wording(refusal(fail="badly"), tells="'badly'")
    wording(refusal(tokens_per_s=0))
    wording(refusal(tmp_path))
    (tmp_path / "a.json").write_text('{"request": "GET /"}')
    wording(refusal(tmp_path), tells="a.json")


def test_every_failure_mode_has_a_description():
    assert set(MODES) < set(FAILURES)
    assert all(meaning for meaning in FAILURES.values())


def test_the_replay_command_prints_its_url_and_what_to_run():
    command = [sys.executable, "-m", "lab.replay", "lm_studio", "--api-key", "right-key"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            where, what = server.stdout.readline(), server.stdout.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+", where)[0]
            assert where.startswith("lm_studio is replayed at ")
            assert what == f"try: unslow diagnose {url} --api-key KEY\n"
            assert ask(url, "/lmstudio-greeting", "right-key").json() == {"lmstudio": True}
        finally:
            server.terminate()


def test_the_replay_command_refuses_an_unknown_folder():
    command = [sys.executable, "-m", "lab.replay", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("cannot replay nothing: ")
