"""CSV tables: any column order, encoding and separator, and rows that can't be predicted."""

import csv
import io
from pathlib import Path

import pytest

from unslow.commands.predict import tables
from unslow.commands.predict.tables import ADDED, predict_table
from unslow.facts.errors import UserError

PLAIN = "model,hardware,test,quant,note\nLlama 3.1 8B,RTX 4090,tg128,Q4_K_M,hello\nnobody,RTX 4090,tg128,,\n"


class Silent:
    def say(self, text: str) -> None: ...
    def step(self, text: str, share: float) -> None: ...


def predicted(folder: Path, text: str | bytes) -> bytes:
    source, target = folder / "in.csv", folder / "out.csv"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    predict_table(str(source), str(target), Silent(), force=True)
    return target.read_bytes()


def rows_of(data: bytes, delimiter: str = ",", encoding: str = "utf-8-sig") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(encoding), newline=""), delimiter=delimiter))


def test_table_is_repeated_with_predictions(tmp_path: Path) -> None:
    first, second = rows_of(predicted(tmp_path, PLAIN))
    assert first["note"] == "hello"
    low, mid, high = (float(first[c]) for c in ("predicted_low", "predicted_tok_s", "predicted_high"))
    assert low < mid < high
    assert first["basis"].startswith("catalog")
    assert first["reason"] == ""
    assert second["predicted_tok_s"] == second["basis"] == ""
    assert "nobody" in second["reason"]


def test_predicting_twice_changes_nothing(tmp_path: Path) -> None:
    once = predicted(tmp_path, PLAIN)
    assert predicted(tmp_path, once) == once


def test_columns_may_be_in_any_order_and_case(tmp_path: Path) -> None:
    text = "Test, Hardware ,MODEL\ntg128,RTX 4090,Llama 3.1 8B\n"
    (row,) = rows_of(predicted(tmp_path, text))
    assert row["predicted_tok_s"]


def test_semicolons_and_decimal_commas_of_excel_are_kept(tmp_path: Path) -> None:
    text = "\ufeffmodel;hardware;test;quant;model_size_gib\r\nLlama 3.1 8B;RTX 4090;tg128;Q4_K_M;4,58\r\n"
    out = predicted(tmp_path, text)
    assert out.startswith("\ufeff".encode())
    assert out.count(b"\r\n") == 2
    (row,) = rows_of(out, ";")
    assert row["model_size_gib"] == "4,58"
    (plain,) = rows_of(predicted(tmp_path, text.replace("4,58", "4.58")), ";")
    assert row["predicted_tok_s"].replace(",", ".") == plain["predicted_tok_s"]
    assert "," in row["predicted_tok_s"]


def test_tabs_and_utf_16_are_read(tmp_path: Path) -> None:
    text = "model\thardware\ttest\nLlama 3.1 8B\tRTX 4090\tpp512\n"
    (row,) = rows_of(predicted(tmp_path, text.encode("utf-16")), "\t", "utf-16")
    assert row["predicted_tok_s"]


def test_non_utf_8_bytes_are_kept(tmp_path: Path) -> None:
    out = predicted(tmp_path, PLAIN.encode().replace(b"hello", b"M\xfcller"))
    assert b"M\xfcller" in out


def test_short_and_long_rows_are_kept(tmp_path: Path) -> None:
    text = PLAIN + "Llama 3.1 8B\n\nLlama 3.1 8B,RTX 4090,tg128,Q4_K_M,x,more,cells\n"
    out = predicted(tmp_path, text)
    lines = list(csv.reader(io.StringIO(out.decode())))
    assert [len(line) for line in lines] == [10, 10, 10, 10, 12]
    assert "hardware" in lines[3][9]
    assert lines[4][10:] == ["more", "cells"]
    assert lines[4][5]


def test_long_table_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE", 7)
    head, row, _ = PLAIN.splitlines(keepends=True)
    rows = rows_of(predicted(tmp_path, head + row * 30))
    assert len({row["predicted_tok_s"] for row in rows}) == 1
    assert len(rows) == 30


@pytest.mark.parametrize(
    ("text", "word"),
    [(b"", "empty"), (b"a,b\n1,2\n", "hardware"), (bytes(range(256)), "not text"), (b"\xff\xfe", "empty")],
)
def test_invalid_table_is_refused_and_nothing_is_written(tmp_path: Path, text: bytes, word: str) -> None:
    with pytest.raises(UserError, match=word) as error:
        predicted(tmp_path, text)
    assert error.value.hint
    assert not (tmp_path / "out.csv").exists()


def test_unterminated_cell_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(UserError, match="line"):
        predicted(tmp_path, PLAIN + '"' + "x" * 300_000 + "\n")
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_existing_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(PLAIN)
    with pytest.raises(UserError, match="already") as error:
        predict_table(str(source), str(source), Silent())
    assert "--force" in error.value.hint
    done = predict_table(str(source), str(source), Silent(), force=True)
    assert done == (2, 1)
    assert all(name in source.read_text() for name in ADDED)


@pytest.mark.parametrize("target", ["", "no/such/folder/out.csv"])
def test_unwritable_target_is_refused(tmp_path: Path, target: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text(PLAIN)
    with pytest.raises(UserError):
        predict_table(str(source), str(tmp_path / target), Silent())
