"""Whole reports in prose: every stated fact, and none that is not stated."""

from unslow.facts.account import Topic
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Subject
from unslow.facts.values import Origin
from unslow.think.text.prose import read_words

TEXT = """\
### Since the last update inference is very slow

- Runtime: Ollama 0.5.8 (Docker)
- GPU: RTX 3060 12GB, driver 550
- CPU: i5-12400, 32 GB DDR4-3200
- Model: Llama 3.1 8B Q4_K_M, num_ctx 8192

With 0.5.7 I had 40 tok/s, now I get 6 tok/s. The GPU is not used; everything runs on the CPU.
Swap is not used. The same happens with streaming off.
"""
REPORT = TEXT.splitlines()


def test_whole_report_is_understood():
    machine, subject = read_words(REPORT, "report.md")
    assert [gpu.name.need() for gpu in machine.gpus.need()] == ["RTX 3060"]
    assert (machine.cpu.model.need(), machine.memory.kind.need()) == ("i5-12400", "DDR4-3200")
    assert machine.system.container.need() == "docker"
    assert (subject.runtime.name.need(), subject.runtime.version.need()) == ("Ollama", "0.5.8")
    assert (subject.model.name.need(), subject.model.quant.need()) == ("Llama-3.1-8B", "Q4_K_M")
    assert subject.runtime.context.length.need() == 8192
    assert subject.account.version_before.need() == "0.5.7"
    topics = [remark.topic for remark in subject.account.remarks.need()]
    assert Topic.GPU_UNUSED in topics
    assert Topic.SWAPPING not in topics
    assert any((c.slow, c.fast) == (6, 40) for c in subject.account.comparisons.need())


def test_every_fact_is_told_with_its_line():
    machine, subject = read_words(REPORT, "report.md")
    facts = [machine.gpus, machine.cpu.model, subject.runtime.version, subject.model.name, subject.account.remarks]
    assert {fact.origin for fact in facts} == {Origin.TOLD}
    assert machine.gpus.source == "report.md:4"
    assert subject.model.name.source == "report.md:6"


def test_text_without_facts_gives_none():
    assert read_words(["Hello!", "Thanks for the great work."], "r") == (Machine(), Subject())
    assert read_words([], "r") == (Machine(), Subject())


def test_program_output_is_left_to_the_log_readers():
    lines = [
        'time=2026-03-01T10:00:00Z level=INFO source=x.go:1 msg="RTX 3090 7 tok/s"',
        "llama_model_loader: - kv 2: general.name str = Llama 3.1 8B",
    ]  # fmt: skip
    assert read_words(lines, "r") == (Machine(), Subject())
