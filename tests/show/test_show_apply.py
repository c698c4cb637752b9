from unslow.show.apply import render_apply
from unslow.think.change import ApplyReport, FileShown


def test_diff_expands_tabs_and_replaces_escape_sequences():
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-\t-t 1\n+\t-t 2\x1b[2J"
    report = ApplyReport(
        unslow_version="0", runtime="llama.cpp", model="m", option="o", how="script", outcome="would_change",
        files=(FileShown(path="a", diff=diff),),
    )  # fmt: skip
    shown = render_apply(report, "terminal", width=80, color=False)
    assert "\n    -    -t 1\n" in shown
    assert "\n    +    -t 2�[2J" in shown
