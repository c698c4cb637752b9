import pytest
from doubles import FakeSystem

from unslow.facts.values import GIB, KIB, MIB, Absence, Origin, Unknown
from unslow.look.bench.ram_bandwidth import (
    MOST_BYTES_EACH,
    PIECE_BYTES,
    Piece,
    Scan,
    _bytes_each,
    levels,
    parse_ram_bandwidth,
    read_ram_bandwidth,
    reading_of,
)
from unslow.look.system import LookError

READING = {"threads": 2, "buffer_bytes": 192 * MIB, "one_core": 1e10, "together": 2e10, "at_once": 2, "now": 1.9e10}


def pieces(count, each_s, start_s=0.0, pause_s=0.0, cpu_share=1.0):
    """Pieces read one after the other, with a pause after each."""
    starts = [start_s + i * (each_s + pause_s) for i in range(count)]
    return [Piece(start, start + each_s, each_s * cpu_share) for start in starts]


def test_on_an_idle_machine_current_ram_bandwidth_equals_the_maximum():
    scan = Scan(pieces(100, 2e-4), [pieces(100, 2e-4), pieces(100, 2e-4)])
    reading = reading_of(scan, 96 * MIB)
    assert reading.one_core == pytest.approx(PIECE_BYTES / 2e-4)
    assert reading.together == pytest.approx(2 * PIECE_BYTES / 2e-4)
    assert reading.now == pytest.approx(reading.together)
    assert [reading.threads, reading.at_once, reading.buffer_bytes] == [2, 2, 192 * MIB]


def test_preempted_pieces_lower_only_the_current_ram_bandwidth():
    half = pieces(50, 2e-4) + pieces(10, 2e-3, start_s=0.01, cpu_share=0.1)
    reading = reading_of(Scan(pieces(10, 2e-4), [half, half]), 96 * MIB)
    assert reading.together == pytest.approx(2 * PIECE_BYTES / 2e-4)
    assert reading.now < 0.5 * reading.together


def test_ram_bandwidth_counts_only_threads_that_ran_at_the_same_time():
    # Eight threads, of which four run at once and already share all there is: 2.5 times one core.
    each_s = 4 / 2.5 * 2e-4
    turn = [pieces(100, each_s), *[pieces(100, each_s)] * 3, *[pieces(100, each_s, start_s=0.1)] * 4]
    reading = reading_of(Scan(pieces(100, 2e-4), turn), 32 * MIB)
    one_core = PIECE_BYTES / 2e-4
    assert reading.at_once == 4
    assert 2.5 * one_core < reading.together < 4 * one_core  # the sum over threads would say 5


def test_ram_bandwidth_scales_by_threads_that_never_overlapped():
    turn = [pieces(100, 2e-4), pieces(100, 2e-4, start_s=0.05)]
    reading = reading_of(Scan(pieces(100, 2e-4), turn), 96 * MIB)
    assert reading.at_once == 1
    assert reading.together == pytest.approx(2 * PIECE_BYTES / 2e-4)


def test_concurrency_levels_conserve_bytes_and_time():
    found = levels(pieces(10, 1e-3) + pieces(5, 1e-3, start_s=2.5e-3))
    assert sum(level.bytes for level in found) == pytest.approx(15 * PIECE_BYTES)
    lasting = {level.threads: level.seconds for level in found if level.seconds > 1e-9}
    assert lasting == pytest.approx({1: 5e-3, 2: 5e-3})
    assert levels([]) == []


def test_ram_bandwidth_facts_are_measured_and_name_their_source(wording):
    memory = parse_ram_bandwidth(READING, 48 * MIB)
    assert [memory.read_bytes_per_s.need(), memory.read_one_core_bytes_per_s.need()] == [2e10, 1e10]
    assert memory.read_now_bytes_per_s.need() == 1.9e10
    assert memory.read_bytes_per_s.origin is Origin.MEASURED
    wording(memory.read_bytes_per_s.source, tells=("192 MiB", "2 threads"))


def test_ram_bandwidth_source_warns_when_the_buffer_fits_the_caches(wording):
    wording(parse_ram_bandwidth(READING, 300 * MIB).read_bytes_per_s.source, tells="300 MiB")
    wording(parse_ram_bandwidth(READING, 0).read_bytes_per_s.source)


def test_ram_bandwidth_is_an_estimate_when_threads_did_not_overlap(wording):
    fact = parse_ram_bandwidth(READING | {"at_once": 1}, 48 * MIB).read_bytes_per_s
    assert fact.origin is Origin.ESTIMATED
    wording(fact.source)


@pytest.mark.parametrize("answer", [None, [], {}, READING | {"now": -1.0}, READING | {"threads": "two"}])
def test_a_malformed_ram_bandwidth_answer_is_a_failed_look(answer):
    with pytest.raises(LookError) as refused:
        parse_ram_bandwidth(answer, 0)
    assert refused.value.absence is Absence.FAILED


@pytest.mark.parametrize(
    ("threads", "cache", "free", "total"),
    [
        (2, 48 * MIB, 24 * GIB, 192 * MIB),
        (16, 300 * MIB, 125 * GIB, 16 * 74 * MIB),
        (2, 300 * MIB, 24 * GIB, 2 * MOST_BYTES_EACH),
        (64, 768 * MIB, 500 * GIB, 2 * GIB),
        (4, 8 * MIB, GIB, 32 * MIB),
    ],
)
def test_scan_buffers_exceed_the_caches_and_stay_bounded(threads, cache, free, total):
    assert threads * _bytes_each(threads, cache, free) == total


def test_ram_bandwidth_is_not_measured_when_memory_is_scarce(wording):
    with pytest.raises(LookError):
        _bytes_each(8, 32 * MIB, 100 * MIB)
    system = FakeSystem(files={"/proc/meminfo": "MemAvailable: 20000 kB\n"})
    wording(read_ram_bandwidth(system).read_bytes_per_s.why)


def test_ram_bandwidth_is_read_through_the_system_interface():
    files = {"/proc/meminfo": f"MemAvailable: {24 * GIB // KIB} kB\n"}
    assert read_ram_bandwidth(FakeSystem(files=files, asks={"ram_bandwidth": READING})).read_bytes_per_s.need() == 2e10
    assert isinstance(read_ram_bandwidth(FakeSystem(files=files)).read_bytes_per_s, Unknown)
