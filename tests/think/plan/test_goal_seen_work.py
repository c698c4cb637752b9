"""The usual request: as others sent it, never as this program did."""

from unslow.facts.run import Completion, Run, SeenPrompt, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import reported
from unslow.think.plan.goal import SeenWork, work_seen


def traffic(*prompts: tuple[int, int]) -> Traffic:
    each = tuple(SeenPrompt(slot=n, tokens=whole, cached_tokens=kept) for n, (whole, kept) in enumerate(prompts))
    return Traffic(seconds=10, looks=5, running=1, waiting=0, prompts=reported(each, "/slots"))


def test_prompts_of_others_tell_what_is_new_and_what_is_kept() -> None:
    work = work_seen(Case(run=Run(traffic=reported(traffic((1000, 0), (3000, 2500), (4000, 3000)), "watched"))))
    assert (work.prompt, work.kept) == (1000, 2500)
    assert "3 requests" in work.said


def test_a_log_tells_the_new_tokens_alone() -> None:
    work = work_seen(Case(run=Run(logged_prompts=reported((100, 300, 900), "log"))))
    assert (work.prompt, work.kept, work.answer) == (300, None, None)
    assert work_seen(Case(run=Run(logged_prompts=reported((100,), "log")))) == SeenWork()


def test_what_was_sent_to_measure_is_not_usual() -> None:
    own = (Completion(prompt_tokens=32, generated_tokens=128, prefill_s=0.1, decode_s=1),)
    run = Run(
        completions=reported(own, "sent"), logged_prompts=reported((32, 32), "log"), answer_tokens=reported(128, "sent")
    )
    assert work_seen(Case(run=run)) == SeenWork()


def test_an_answer_counts_with_what_was_thought_before_it() -> None:
    run = Run(answer_tokens=reported(200, "client"), thinking_tokens=reported(1800, "client"))
    assert work_seen(Case(run=run)).answer == 2000
