"""The output of `unslow plan` in the terminal and as Markdown."""

import re

import msgspec
from plans import GOAL, option, plan

import unslow
from unslow.show.plan import render_plan
from unslow.think.plan.report import OptionShown, PlanReport, SpeedShown
from unslow.think.speed.report import RateShown


def rates(mid: float) -> RateShown:
    return RateShown(low=mid / 2, mid=mid, high=mid * 2)


def timed(name: str, decode: float, request_s: float, together: float | None = None) -> OptionShown:
    speed = SpeedShown(
        decode_tokens_per_s=rates(decode), prefill_tokens_per_s=rates(100), request_s=rates(request_s),
        together_tokens_per_s=together,
    )  # fmt: skip
    return msgspec.structs.replace(option(name), speed=speed, commands=(f"llama-server -m {name}.gguf",))


def shown(report: PlanReport, form: str = "terminal") -> str:
    return " ".join(render_plan(report, form, width=100, color=False).split())


def already_best(*, of_running: bool) -> PlanReport:
    report = plan("llama.cpp", "m", timed("best", 50, 5))
    now = timed("usual", 50, 5)
    return msgspec.structs.replace(report, verdict="already_best", current=now, of_running=of_running)


def test_best_defaults_without_a_running_server_show_their_command(wording) -> None:
    for form in ("terminal", "markdown"):
        said = shown(already_best(of_running=False), form)
        wording(re.search(r"the defaults[^%]*%", said)[0])
        assert "llama-server -m usual.gguf" in said
        assert "NOTHING TO GAIN" not in said
    assert "DEFAULTS ARE BEST" in shown(already_best(of_running=False))
    assert " now " not in shown(already_best(of_running=False))


def test_running_server_that_is_already_best_shows_no_command() -> None:
    said = shown(already_best(of_running=True))
    assert "NOTHING TO GAIN" in said
    assert "now usual" in said
    assert "llama-server" not in said


def test_several_users_show_speed_each_and_combined(wording) -> None:
    several = msgspec.structs.replace(GOAL, users=4)
    report = msgspec.structs.replace(plan("llama.cpp", "m", timed("best", 50, 5, together=200)), goal=several)
    said = shown(report)
    wording(re.search(r"50\.0 tok/s.*? 5 s", said)[0], tells=("25.0", "100", "200"))
    wording(render_plan(report, "markdown", width=80, color=False), about="| request |")
    alone = shown(plan("llama.cpp", "m", timed("best", 50, 5)))
    wording(re.search(r"50\.0 tok/s.*? 5 s", alone)[0])


def test_long_requests_are_shown_in_minutes_and_hours() -> None:
    said = shown(plan("llama.cpp", "m", timed("best", 0.1, 2660), timed("worse", 0.1, 90_000)))
    assert "44.3 min" in said
    assert "25.0 h" in said
    assert "e+" not in said


def test_arrow_marks_the_option_to_apply() -> None:
    def marked(report: PlanReport) -> list[str]:
        return [line for line in render_plan(report, "terminal", width=80, color=False).splitlines() if "→" in line]

    assert "usual" in marked(already_best(of_running=False))[0]
    assert len(marked(already_best(of_running=False))) == 1
    assert marked(already_best(of_running=True)) == []
    assert "best" in marked(msgspec.structs.replace(already_best(of_running=True), verdict="better"))[0]


def test_markdown_marks_rows_like_the_terminal() -> None:
    said = shown(msgspec.structs.replace(already_best(of_running=True), verdict="better"), "markdown")
    assert "| now usual |" in said
    assert "| → best |" in said


def test_regex_value_is_code_in_markdown() -> None:
    report = plan("llama.cpp", "m", option("best", tensor_override=r"blk\.(1|2)\.ffn=CPU"))
    assert r"- tensor_override: `blk\.(1|2)\.ffn=CPU`" in render_plan(report, "markdown", width=80, color=False)


def test_commands_and_manual_steps_are_not_wrapped() -> None:
    line, words = f"llama-server -m {'x' * 100}.gguf", f"by hand: {'put the file into the line ' * 5}"
    report = plan("llama.cpp", "m", msgspec.structs.replace(timed("best", 50, 5), commands=(words, line)))
    said = render_plan(report, "terminal", width=80, color=False).splitlines()
    assert [told for told in said if len(told) > 80] == [f"  {words}".rstrip(), f"  {line}"]


def test_unknown_context_is_not_shown() -> None:
    unknown = msgspec.structs.replace(plan("x", "m"), goal=msgspec.structs.replace(GOAL, context=0), recommended=None)
    assert "context" not in shown(unknown)


def test_several_users_show_slots_and_context_per_slot(wording) -> None:
    plan = unslow.plan("qwen2.5-0.5b", device="RTX 3060", ram="16GB", users=8, context=512, prompt=128)
    wording(render_plan(plan, "terminal", width=120, color=False), about="4,096", tells=("8", "512"))
