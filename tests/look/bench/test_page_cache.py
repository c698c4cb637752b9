"""Page cache of a real file: counted, dropped, and kept while another process maps it."""

import mmap
import os
import subprocess
import sys

import pytest

from unslow.look.bench.page_cache import drop_pages, read_cached_share, read_disk_speed, read_users
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
SIZE = 4 * 1024**2 + 17


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "m.gguf"
    path.write_bytes(os.urandom(SIZE))
    if subprocess.run(["df", "-t", "tmpfs", path], capture_output=True, check=False).returncode == 0:
        pytest.skip("a file in memory has no disk to be dropped to")
    return str(path)


def test_dropped_pages_leave_the_page_cache_and_reading_restores_them(file):
    assert read_cached_share(SYSTEM, [file]) == 1.0
    drop_pages(SYSTEM, [file])
    assert read_cached_share(SYSTEM, [file]) == 0.0
    assert read_disk_speed(SYSTEM, [file], 5.0) > 0
    assert read_cached_share(SYSTEM, [file]) == 1.0


def test_pages_mapped_by_another_process_stay_in_the_page_cache(file):
    assert read_users(SYSTEM, [file]) == []
    script = f"import mmap; f = open({file!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); sum(m[::4096])"
    script += "; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert read_users(SYSTEM, [file]) == [other.pid]
        drop_pages(SYSTEM, [file])
        assert read_cached_share(SYSTEM, [file]) > 0.5
        other.communicate(b"\n")


def test_cached_share_is_weighted_over_several_files(file, tmp_path):
    empty = tmp_path / "none"
    empty.write_bytes(b"")
    assert read_cached_share(SYSTEM, [str(empty)]) == 0.0
    assert read_cached_share(SYSTEM, [str(empty), file]) == 1.0
    assert mmap.PAGESIZE < SIZE


def test_a_missing_file_is_a_look_error_in_every_page_cache_call():
    for look in (read_cached_share, drop_pages, lambda s, p: read_disk_speed(s, p, 1.0)):
        with pytest.raises(LookError, match="/nowhere"):
            look(SYSTEM, ["/nowhere"])
