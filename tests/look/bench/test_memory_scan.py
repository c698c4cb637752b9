from itertools import pairwise

from unslow.look.bench.ram_bandwidth import PIECE_BYTES, scan_memory


def test_memory_scan_threads_read_pieces_sequentially():
    scan = scan_memory(threads=2, bytes_each=2 * PIECE_BYTES)
    assert len(scan.together) == 2
    for pieces in (scan.alone, *scan.together):
        assert pieces
        assert all(a.end_s <= b.start_s for a, b in pairwise(pieces))
        assert all(piece.end_s > piece.start_s and piece.cpu_s >= 0 for piece in pieces)
