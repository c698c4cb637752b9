from math import nan
from threading import Thread

import pytest

from unslow.facts.run import PhaseTelemetry, Span
from unslow.look.logs.gpu_facts import reason_names
from unslow.look.sampler.readings import Device
from unslow.look.sampler.rows import BLOCK_ROWS, SampledRows

GPU = Device(0, "A GPU", reason_names)


def filled(rows: int, columns: tuple[str, ...] = ("value",)) -> SampledRows:
    book = SampledRows(columns, ())
    for number in range(rows):
        book.add(number / 10, [float(number)] * len(columns))
    return book


def phase(book: SampledRows, name: str) -> PhaseTelemetry:
    return next(p for p in book.phases() if p.phase == name)


def test_samples_in_a_span_belong_to_its_phase_and_others_are_idle():
    book = filled(100)
    book.note(Span(phase="decode", start_s=2.0, end_s=4.95))
    decode, idle = phase(book, "decode"), phase(book, "idle")
    assert (decode.samples, decode.seconds) == (30, pytest.approx(2.95))
    assert decode.host["value"].mean == pytest.approx(sum(range(20, 50)) / 30)
    assert (decode.host["value"].low, decode.host["value"].high, decode.host["value"].last) == (20, 49, 49)
    assert idle.samples == 70
    assert idle.seconds == pytest.approx(7.0)


def test_overlapping_spans_count_samples_and_seconds_once():
    book = filled(100)
    for start, end in ((2.0, 4.0), (3.0, 5.0), (3.5, 3.6), (2.0, 4.0)):
        book.note(Span(phase="decode", start_s=start, end_s=end))
    assert phase(book, "decode").samples == 31
    assert phase(book, "decode").seconds == pytest.approx(3.0)


def test_a_sample_can_belong_to_two_phases():
    book = filled(100)
    book.note(Span(phase="decode", start_s=2.0, end_s=4.0))
    book.note(Span(phase="prefill", start_s=3.0, end_s=5.0))
    assert (phase(book, "decode").samples, phase(book, "prefill").samples) == (21, 21)
    assert phase(book, "idle").samples == 100 - 31


def test_a_span_over_many_blocks_finds_all_its_samples():
    book = filled(5 * BLOCK_ROWS)
    book.note(Span(phase="load", start_s=0.0, end_s=1e6))
    assert phase(book, "load").samples == 5 * BLOCK_ROWS


def test_a_span_without_samples_still_has_its_seconds():
    book = filled(100)
    book.note(Span(phase="prefill", start_s=2.01, end_s=2.04))
    assert (phase(book, "prefill").samples, phase(book, "prefill").seconds) == (0, pytest.approx(0.03))
    assert phase(book, "prefill").host == {}


def test_missing_values_are_not_samples():
    book = SampledRows(("often", "seldom"), ())
    for number in range(10):
        book.add(number, [1.0, 5.0 if number % 5 == 0 else nan])
    book.note(Span(phase="decode", start_s=0, end_s=10))
    host = phase(book, "decode").host
    assert (host["often"].samples, host["seldom"].samples, host["seldom"].mean) == (10, 2, 5.0)
    assert book.means_between(1, 4) == {"often": 1.0}


def test_throttle_reasons_are_shares_of_the_samples_that_have_them():
    book = SampledRows(("gpu0_power_w", "gpu0_reason_bits"), (GPU,))
    for number in range(10):
        book.add(number, [100.0 + number, nan if number == 9 else 4.0 if number < 3 else 0.0])
    book.note(Span(phase="decode", start_s=0, end_s=10))
    gpu = phase(book, "decode").gpus[0]
    assert gpu.name == "A GPU"
    assert gpu.reasons == {"sw_power_cap": pytest.approx(3 / 9)}
    assert set(gpu.figures) == {"power_w"}
    assert "gpu0_power_w" not in phase(book, "decode").host
    assert book.means_between(0, 10)["gpu0_power_w_max"] == 109.0
    assert book.means_between(0, 10)["gpu0_reason_sw_power_cap"] == pytest.approx(3 / 9)


def test_single_cores_are_in_the_rows_but_not_in_summaries():
    book = filled(3, ("busy_cpus", "core0_busy"))
    assert set(book.means_between(0, 1)) == {"busy_cpus"}
    assert [values for _, _, values in book.rows()][2] == [2.0, 2.0]


def test_rows_can_be_read_and_annotated_while_written():
    book = SampledRows(("value",), ())

    def annotate() -> None:
        for number in range(50):
            book.note(Span(phase="decode", start_s=number, end_s=number + 2))
            book.phases()

    threads = [Thread(target=annotate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        book.add(number / 10, [1.0])
    for thread in threads:
        thread.join()
    book.note(Span(phase="decode", start_s=0, end_s=1e6))
    assert phase(book, "decode").samples == 2000
    assert phase(book, "decode").host["value"].mean == 1.0
