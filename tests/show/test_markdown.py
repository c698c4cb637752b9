"""A report as Markdown, ready to post: pasted text never acts as markup."""

import re

import msgspec
import pytest
from all_firing import FIRING
from cases import gpu_case

from unslow.commands._formats import render
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import ContradictionShown, Evidence, Fix, Question, Report, RuledOut, SubjectReport, Untold


def shown(subject: SubjectReport, *, everything: bool = False) -> str:
    report = Report(unslow_version="1.2", machine={}, subjects=(subject,))
    return render(report, "markdown", width=80, color=False, everything=everything)


def slow(**changes) -> SubjectReport:
    return msgspec.structs.replace(judge(CaseView(FIRING["gpu_layers_set_too_low"]())), **changes)


def told(value: str, source: str = "report.txt:3") -> Evidence:
    return Evidence(fact="model.name", value=value, reference=None, origin="told", source=source)


def test_verdict_is_the_heading(wording):
    for judged in (slow(), judge(CaseView(gpu_case())), judge(CaseView(FIRING["memory_allocation_failed"]()))):
        assert wording(shown(judged).splitlines()[0]).startswith("### ")
    empty = Report(unslow_version="1", machine={}, subjects=())
    wording(render(empty, "markdown", width=80, color=False).splitlines()[0])


def test_finding_shows_its_evidence_and_its_fix(wording):
    text = shown(slow())
    wording(re.search(r"\*\*1\. .*?\*\*", text)[0])
    wording(text, about="against 33", tells="20")
    wording(re.search(r"\*\*Fix:\*\*[^(]*", text)[0])


def test_consequences_are_listed_under_their_root_cause(wording):
    text = shown(judge(CaseView(FIRING["other_process_holds_vram"]())))
    wording(re.search(r"\*\*1\. .*?\*\*", text)[0])
    wording(re.search(r"- \*\*Consequence:\*\* [^:]*", text)[0])
    assert "**2." not in text


def test_known_facts_have_units(wording):
    known = (
        Evidence(fact="run.decode_tokens_per_s", value=7.0, reference=None, origin="told", source="p:1"),
        Evidence(fact="machine.memory.total_bytes", value=32 * 2**30, reference=None, origin="told", source="p:1"),
        Evidence(fact="run.load_s", value=90.0, reference=None, origin="told", source="p:1"),
    )
    text = shown(slow(known=known))
    wording(text, about="7.00 tok/s", tells="p:1")
    assert "- RAM: 32.0 GiB" in text
    wording(text, about="90 s")


def test_questions_are_shell_blocks_ready_to_copy(wording):
    asks = (Question(command="ollama ps", why="shows the share"), Question(command="nvidia-smi", why="shows the GPU"))
    text = shown(slow(ask_next=asks))
    wording([line for line in text.splitlines() if line.startswith("Please run")])
    wording([line for line in text.splitlines() if line.startswith("- It ")], tells=[ask.why for ask in asks])
    assert re.findall(r":\n  ```sh\n  (.*)\n  ```\n", text) == [ask.command for ask in asks]
    wording([line for line in shown(slow(ask_next=asks[:1])).splitlines() if line.startswith("Please run")])
    assert "Please run" not in shown(slow())


def test_suspicions_contradictions_and_known_facts_are_shown(wording):
    suspected = Untold(cause="swapping", missing="x", because="it swaps", how_to_get="", suspected=True)
    guess = Untold(cause="queueing", missing="x", because="not looked at", how_to_get="")
    text = shown(slow(cannot_tell=(suspected, guess)))
    wording(text[: text.index("\n\n- it swaps (`swapping`)")].splitlines()[-1])
    assert "queueing" not in text
    alone = shown(slow(findings=(), cannot_tell=(suspected,)))
    wording(alone[: alone.index("\n\n- it swaps (`swapping`)")].splitlines()[-1])
    against = ContradictionShown(about="context_length", says=("8192 [a:1]", "4096 [b:2]"), meaning="It was reduced.")
    text = shown(slow(contradictions=(against,), known=(told("Llama-3.1-8B"),)))
    wording(text, about="context_length", tells=("8192", "a:1", "4096", "b:2", "It was reduced."))
    assert wording(re.search(r"<summary>(.*)</summary>\n\n(- .*)", text).groups(), tells="Llama-3.1-8B (report.txt:3")


def test_ruled_out_causes_are_shown_only_with_everything():
    ruled_out = (RuledOut(cause="swapping", because="no swap"),)
    assert "no swap" not in shown(slow(ruled_out=ruled_out))
    assert "- `swapping`: no swap" in shown(slow(ruled_out=ruled_out), everything=True)
    alike = (*ruled_out, RuledOut(cause="queueing", because="no swap"))
    assert "- `swapping`, `queueing`: no swap" in shown(slow(ruled_out=alike), everything=True)


def test_footer_says_whether_the_report_rests_on_pasted_text(wording):
    wording(shown(slow(known=(told("x"),))).splitlines()[-1], tells="1.2")
    wording(shown(slow()).splitlines()[-1], tells="1.2")


@pytest.mark.parametrize(
    ("pasted", "shown_as"),
    [
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y>"),
        ("![](http://evil/track.png)", "!\\[\\](http://evil/track.png)"),
        ("[click](javascript:x)", "\\[click\\](javascript:x)"),
        ("&#x202e;", "&amp;#\u200bx202e;"),
        ("``code` and **bold**", "\\`\\`code\\` and \\*\\*bold\\*\\*"),
        ("```<img src=x>`", "\\`\\`\\`&lt;img src=x>\\`"),
        ("thanks @alice, see #12", "thanks @\u200balice, see #\u200b12"),
        (r"C:\models\x.gguf", r"C:\\models\\x.gguf"),
        ("two\nlines\n# heading", "two lines #\u200b heading"),
        ("Q4_K_M", "Q4_K_M"),
    ],
)
def test_pasted_markup_is_escaped(pasted, shown_as):
    text = shown(slow(known=(told(pasted, pasted),), summary=pasted))
    assert f"- model: {shown_as} ({shown_as}, as written)" in text
    assert f"\n\n{shown_as}\n" in text


def test_code_fence_is_longer_than_backticks_in_a_command():
    (finding,) = slow().findings[:1]
    fix = Fix(knob="x", value=1, why="do it", commands=("echo '```'\n# heading",))
    text = shown(slow(findings=(msgspec.structs.replace(finding, fixes=(fix,)),)))
    assert "  ````sh\n  echo '```' # heading\n  ````\n" in text


def fixed_by(*commands: str) -> str:
    (finding,) = slow().findings[:1]
    fix = Fix(knob="x", value=1, why="do it", commands=commands)
    return shown(slow(findings=(msgspec.structs.replace(finding, fixes=(fix,)),)))


def test_only_shell_commands_are_in_shell_blocks():
    text = fixed_by(
        "in a chat: /set parameter num_ctx 8192", 'in a request: "think": false', "ollama ps", "by hand: quit it"
    )
    assert "\n\n  In a chat:\n  ```text\n  /set parameter num_ctx 8192\n  ```\n" in text
    assert '  In a request:\n  ```json\n  "think": false\n  ```\n  ```sh\n  ollama ps\n  ```\n  - quit it\n' in text


def test_flags_are_inline_code_in_a_list():
    assert "\n  - `--kv-cache-dtype fp8`, `--max-model-len 16384`\n" in fixed_by(
        "--kv-cache-dtype fp8", "--max-model-len 16384"
    )
    assert "\n  - remove `-ngl 20`\n  ```sh\n  ./main -m x.gguf\n" in fixed_by("remove -ngl 20", "./main -m x.gguf")


def test_multi_line_files_keep_their_lines():
    assert "  ```sh\n  sudo systemctl restart x\n  ```" in fixed_by("sudo systemctl restart x")
    assert "  ```text\n  FROM a\n  PARAMETER num_ctx 1\n" in fixed_by(
        "as the file Modelfile: FROM a\nPARAMETER num_ctx 1"
    )


def test_windows_commands_are_in_a_bat_block():
    asks = (Question(command=r'in cmd.exe: type "%LOCALAPPDATA%\x.log"', why="holds it"),)
    assert '  In cmd.exe:\n  ```bat\n  type "%LOCALAPPDATA%\\x.log"\n  ```\n' in shown(slow(ask_next=asks))


def test_code_in_a_summary_stays_code():
    assert "To find out: `ollama ps && x`." in shown(slow(summary="To find out: `ollama ps && x`."))
