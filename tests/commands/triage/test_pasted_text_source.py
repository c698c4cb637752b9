import io
import os
import sys
import threading

import pytest
from doubles import Quiet

from unslow.commands.triage.pasted_text import CHUNK_BYTES, read_text_source
from unslow.facts.errors import UserError


def test_file_is_read_in_chunks_with_name_and_size(tmp_path):
    data = b"x" * (2 * CHUNK_BYTES + 5)
    (tmp_path / "server.log").write_bytes(data)
    with read_text_source(str(tmp_path / "server.log")) as source:
        assert (source.name, source.total_bytes) == ("server.log", len(data))
        chunks = list(source.chunks)
    assert b"".join(chunks) == data
    assert max(map(len, chunks)) == CHUNK_BYTES


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"slow")))
    with read_text_source("-") as source:
        assert (source.name, source.total_bytes, list(source.chunks)) == ("paste", 0, [b"slow"])


def test_closed_standard_input_is_a_user_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="no standard input"), read_text_source("-"):
        pass


def test_pipe_has_no_size(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"slow"))
    writer.start()
    with read_text_source(str(tmp_path / "pipe")) as source:
        assert (source.total_bytes, list(source.chunks)) == (0, [b"slow"])
    writer.join()


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("nothing.log", "No such file")])
def test_folders_and_missing_files_are_refused(tmp_path, name, words):
    with pytest.raises(UserError, match=words), read_text_source(str(tmp_path / name)):
        pass


def test_unprintable_file_name_is_cleaned(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\x1b[31m.log"
    with open(path, "wb") as file:
        file.write(b"slow")
    with read_text_source(os.fsdecode(path)) as source:
        source.name.encode()
        assert source.name.isprintable()


def test_progress_follows_the_bytes():
    class Steps(Quiet):
        def step(self, text: str, share: float) -> None:
            self.said.append(f"{text} {share:.2f}")

    from unslow.commands.triage.pasted_text import TextSource

    steps = Steps()
    follow = TextSource(iter(()), "a.log", 200).follow(steps)
    follow(50)
    follow(500)
    TextSource(iter(()), "paste", 0).follow(steps)(50)
    assert steps.said == ["reading a.log 0.25", "reading a.log 1.00", "reading paste 0.50"]
