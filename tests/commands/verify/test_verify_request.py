"""The request of `unslow verify`, and what a plan means for it."""

import msgspec
import pytest
from doubles import Quiet

from unslow.commands._dispatch import parse_words
from unslow.commands.verify import VerifyRequest
from unslow.commands.verify.comparison import _allowed_rise, _work, both_lines, read_plan, resolve_request, verify
from unslow.facts.errors import UserError
from unslow.facts.verification import Work
from unslow.think.plan.report import GoalShown, OptionShown, PlanReport, QualityShown

URLS = ("--before", "http://127.0.0.1:1", "--after", "http://127.0.0.1:2")


def asked(*words: str) -> VerifyRequest:
    return resolve_request(parse_words(["verify", *words])[1])


def test_two_servers_and_work_are_parsed():
    request = asked(*URLS, "--prompt", "900", "--no-answers")
    assert (request.before, request.after, request.no_answers) == ("http://127.0.0.1:1", "http://127.0.0.1:2", True)
    assert _work(request, Work()) == Work(prompt_tokens=900)
    assert asked("--before", "a", "b").after == "b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "verify needs two servers"),
        (["--before", "http://127.0.0.1:1"], "verify needs two servers"),
        ([*URLS, "http://127.0.0.1:3"], "mutually exclusive"),
        ([*URLS, "--seconds", "0"], "--seconds must be between 1 and 86,400 (got 0)"),
        ([*URLS, "--allow", "-1"], "--allow must be between 0 and 10 (got -1)"),
        ([*URLS, "--answer", "2"], "--answer must be between 8 and 32,768 (got 2)"),
        ([*URLS, "--together"], "--together"),
        ([*URLS, "--option", "0"], "--option needs a plan"),
        (["--save", "a.json"], "no server given"),
        (["--save", "a.json", "--against", "b.json", "x"], "--save measures the first"),
        (["--save", "a.json", "--before", "x", "y"], "one server at a time"),
        (["--save", "no/such/folder/a.json", "x"], "--save"),
    ],
)
def test_invalid_arguments_are_refused(words, message):
    with pytest.raises(UserError) as caught:
        asked(*words)
    assert message in caught.value.message
    assert caught.value.hint


def option(name: str, *commands: str) -> OptionShown:
    quality = QualityShown(perplexity_increase=None)
    return OptionShown(
        name=name, quant="Q8_0", context=4096, changes=(), speed=None, quality=quality, speedup=1.4, commands=commands
    )


def plan_file(tmp_path, **others: object) -> str:
    goal = GoalShown(
        aim="speed", context=4096, prompt_tokens=300, kept_tokens=0, answer_tokens=64, users=1,
        worst_perplexity_increase=0.01,
    )  # fmt: skip
    known = {
        "current": option("now", "llama-server -m model.gguf"),
        "options": (option("threads", "in a chat: /set", "-t 8", "llama-server -m model.gguf -t 8"), option("by hand")),
        "recommended": 0, **others,
    }  # fmt: skip
    plan = PlanReport(
        unslow_version="1", model="m", runtime="llama.cpp", machine="x", goal=goal, verdict="better", **known
    )
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    return str(path)


def test_plan_gives_both_commands_and_the_work(tmp_path):
    planned = read_plan(plan_file(tmp_path), None)
    assert both_lines(planned, "", "") == ("llama-server -m model.gguf", "llama-server -m model.gguf -t 8")
    assert planned.work == Work(prompt_tokens=300, answer_tokens=64)
    assert _allowed_rise(asked("--plan", "x"), planned) == 0.01
    assert _allowed_rise(asked("--plan", "x", "--allow", "0.2"), planned) == 0.2


def test_plan_without_a_current_command_needs_before(tmp_path, wording):
    planned = read_plan(plan_file(tmp_path, current=None), 1)
    with pytest.raises(UserError) as caught:
        both_lines(planned, "", "")
    wording(str(caught.value), tells="--before")
    assert both_lines(planned, "one", "other") == ("one", "other")


def test_plan_names_the_server_it_was_made_for(tmp_path, wording):
    planned = read_plan(plan_file(tmp_path, current=None, url="http://127.0.0.1:8080"), 1)
    assert planned.url == "http://127.0.0.1:8080"
    with pytest.raises(UserError) as caught:
        both_lines(planned, "", "")
    assert "--save before.json http://127.0.0.1:8080" in caught.value.hint
    assert asked("--save", "b.json", "--plan", "x").plan == "x"
    for elsewhere in ("", "http://192.0.2.1:8080"):
        with pytest.raises(UserError) as caught:
            verify(asked("--save", "b.json", "--plan", plan_file(tmp_path, url=elsewhere), "--option", "1"), Quiet())
        wording(str(caught.value))


def test_unknown_option_number_is_refused(tmp_path, wording):
    with pytest.raises(UserError) as caught:
        read_plan(plan_file(tmp_path), 2)
    wording(caught.value.message.removeprefix(str(tmp_path)), tells="it has 2")
    with pytest.raises(UserError, match="nothing fits"):
        read_plan(plan_file(tmp_path, options=(), recommended=None, reason="nothing fits"), None)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "unslow.plan/1"}'])
def test_invalid_plan_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_plan(str(path), None)
    assert "unslow plan --json" in caught.value.hint


def test_missing_plan_is_refused(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_plan(str(tmp_path / "none.json"), None)
