import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.act.command_words import NotUnderstoodError, all_fit
from unslow.act.systemd import (
    HEAD,
    LAST_NAME,
    NAME,
    UnitFile,
    drop_in,
    drop_in_name,
    exec_start,
    service_settings,
    words_of,
)
from unslow.look.command_writer.starters import in_unit

UNIT = """[Unit]
Description=a server
[Service]
EnvironmentFile=/etc/llama
ExecStart=-/bin/echo -m "/models/my model.gguf" \\
  # why
  -c 32768 --api-key ${KEY} --port %i
[Install]
WantedBy=multi-user.target
"""
OLD = ["/bin/echo", "-m", "/models/my model.gguf", "-c", "32768", "--api-key", "secret-of-mine", "--port", "8080"]
NEW = ["/bin/echo", "-m", "/models/my model.gguf", "--api-key", "secret-of-mine", "--port", "8080", "-c", "8192"]
FILES = [UnitFile("/usr/lib/systemd/system/llama@.service", UNIT)]


def test_unchanged_words_keep_the_units_spelling_without_expanding_keys():
    text = drop_in(FILES, OLD, NEW, {})
    command = 'ExecStart=-/bin/echo -m "/models/my model.gguf" --api-key ${KEY} --port %i -c 8192'
    assert text == f"{HEAD}\n[Service]\nExecStart=\n{command}\n"


def test_systemd_analyze_accepts_the_drop_in(tmp_path: Path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    unit, plain = tmp_path / "llama.service", UNIT.replace("%i", "8080")
    text = drop_in([UnitFile("", plain)], OLD, [*NEW, "a b%c$d\\\"'", ";", ""], {"X": 'a "b"%$', "Y": None})
    unit.write_text(plain + text)  # a drop-in holds as if it stood at the end of the unit
    assert verified(unit) == ""
    unit.write_text(plain + text.replace('\\\\\\"', '"'))
    assert "Unbalanced quoting" in verified(unit)


def verified(unit: Path) -> str:
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join(line for line in done.stderr.splitlines() if str(unit.parent) in line)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=10), max_size=6))
def test_words_written_for_a_unit_are_read_back(words):
    line = " ".join(["/bin/echo", *(in_unit(word, dollars="$$") for word in words)])
    assert all_fit(words_of(line), ["/bin/echo", *words])
    assert not any(word.pattern for word in words_of(line))


def test_the_last_exec_start_wins_and_an_empty_one_clears():
    files = [*FILES, UnitFile("/etc/a/override.conf", "[Service]\nExecStart=\nExecStart=/bin/true -c 1\n")]
    assert [word.value for word in exec_start(files).words] == ["/bin/true", "-c", "1"]
    again = [*files, UnitFile("x", "[Unit]\nExecStart=/ignored\n[Service]\nExecStart=/bin/false\n")]
    with pytest.raises(NotUnderstoodError, match="2 ExecStart lines"):
        exec_start(again)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@/bin/echo other -c 1", "renames"),
        ("/bin/a -c 1 ; /bin/b", "several commands"),
        ('/bin/a "-c', "unclosed"),
        ("/bin/a \\x41", "escape"),
        ("/bin/sh -c 'exec /bin/a'", "not the running command line"),
        ("/bin/a $ARGS", "not the running command line"),
    ],
)
def test_an_uncertain_exec_start_is_not_edited(line, why):
    with pytest.raises(NotUnderstoodError, match=why):
        drop_in([UnitFile("", f"[Service]\nExecStart={line}\n")], ["/bin/a", "-c", "1"], ["/bin/a"], {})


def test_a_dollar_is_literal_with_a_colon_prefix():
    files = [UnitFile("", "[Service]\nExecStart=:/bin/a $X\n")]
    text = drop_in(files, ["/bin/a", "$X"], ["/bin/a", "$X", "$Y"], {})
    assert "ExecStart=:/bin/a $X $Y\n" in text


def test_a_control_character_is_refused():
    for words, variables in ((["/bin/a", "x\ny"], {}), (["/bin/a"], {"A": "x\ny"})):
        with pytest.raises(NotUnderstoodError, match="control"):
            drop_in([UnitFile("", "[Service]\nExecStart=/bin/a\n")], ["/bin/a"], words, variables)


def test_the_drop_in_name_sorts_after_those_that_would_override_it():
    harmless = UnitFile("/etc/x/override.conf", "[Service]\nNice=5\n")
    rival = UnitFile("/etc/x/override.conf", "[Service]\nExecStart=\nExecStart=/bin/a\n")
    last = UnitFile("/etc/x/zzz.conf", rival.text)
    sets = UnitFile("/etc/x/override.conf", '[Service]\nEnvironment="A=1"\n')
    assert drop_in_name([*FILES, harmless], {}, command=True) == NAME
    assert drop_in_name([*FILES, rival], {}, command=True) == LAST_NAME
    assert drop_in_name([*FILES, rival], {"B": "1"}, command=False) == NAME
    assert drop_in_name([*FILES, sets], {"A": "2"}, command=False) == LAST_NAME
    with pytest.raises(NotUnderstoodError, match="zzz"):
        drop_in_name([*FILES, last], {}, command=True)


def test_variables_of_an_earlier_change_stay_unless_set_again():
    earlier = drop_in(FILES, OLD, NEW, {"A": "1", "B": "2", "C": None})
    files = [*FILES, UnitFile(f"/etc/x/{NAME}", earlier)]
    text = drop_in(files, NEW, [*NEW, "-fa", "on"], {"B": "3"}, earlier)
    assert 'Environment="A=1"' in text
    assert 'Environment="B=3"' in text
    assert "B=2" not in text
    assert "UnsetEnvironment=C" in text
    assert "--port %i -c 8192 -fa on" in text
    only = drop_in(files, NEW, NEW, {"D": "4"}, earlier)
    assert "ExecStart=-/bin/echo" in only


def test_a_line_ending_in_two_backslashes_is_not_continued():
    assert service_settings("[Service]\nEnvironment=X=a\\\\\nExecStart=/a \\\n -b\n") == [
        ("Environment", "X=a\\\\"),
        ("ExecStart", "/a   -b"),
    ]
