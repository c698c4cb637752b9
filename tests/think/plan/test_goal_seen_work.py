"""The usual request: as other clients sent it, never as this program did."""

from unslow.facts.run import Completion, Run, SeenPrompt, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.think.case.view import CaseView
from unslow.think.plan.goal import SeenWork, work_seen


def traffic(*prompts: tuple[int, int]) -> Traffic:
    each = tuple(SeenPrompt(slot=n, tokens=whole, cached_tokens=kept) for n, (whole, kept) in enumerate(prompts))
    return Traffic(seconds=10, looks=5, running=1, waiting=0, prompts=reported_fact(each, "/slots"))


def test_observed_prompts_give_new_and_kept_tokens() -> None:
    work = work_seen(
        CaseView(Case(run=Run(traffic=reported_fact(traffic((1000, 0), (3000, 2500), (4000, 3000)), "watched"))))
    )
    assert (work.prompt, work.kept) == (1000, 2500)
    assert "3 observed requests" in work.said


def test_log_gives_new_tokens_only() -> None:
    work = work_seen(CaseView(Case(run=Run(logged_prompts=reported_fact((100, 300, 900), "log")))))
    assert (work.prompt, work.kept, work.answer) == (300, None, None)
    assert work_seen(CaseView(Case(run=Run(logged_prompts=reported_fact((100,), "log"))))) == SeenWork()


def test_own_measurement_requests_are_not_usual_work() -> None:
    own = (Completion(prompt_tokens=32, generated_tokens=128, prefill_s=0.1, decode_s=1),)
    run = Run(
        completions=reported_fact(own, "sent"),
        logged_prompts=reported_fact((32, 32), "log"),
        answer_tokens=reported_fact(128, "sent"),
    )
    assert work_seen(CaseView(Case(run=run))) == SeenWork()


def test_answer_length_includes_thinking() -> None:
    run = Run(answer_tokens=reported_fact(200, "client"), thinking_tokens=reported_fact(1800, "client"))
    assert work_seen(CaseView(Case(run=run))).answer == 2000
