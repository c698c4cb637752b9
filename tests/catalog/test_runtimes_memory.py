import pytest

from unslow.catalog.runtimes import overheads, vllm_kernel, vllm_profile, vllm_release, vllm_releases


def test_vllm_releases_are_ordered_and_start_at_0_8():
    versions = [r.since for r in vllm_releases()]
    assert versions == sorted(set(versions))
    assert versions[0] == (0, 8)


@pytest.mark.parametrize(
    ("version", "since"), [((0, 19), (0, 18)), ((0, 20), (0, 20)), ((0, 3), (0, 8)), ((7, 0), (0, 29))]
)
def test_a_version_uses_the_last_release_entry_before_it(version, since):
    assert vllm_release(version).since == since


def test_every_memory_entry_has_a_source():
    told = [vllm_kernel("MXFP4"), *vllm_releases(), overheads(), vllm_profile()]
    assert all(len(entry.source) > 5 for entry in told)


def test_most_vllm_kernels_need_no_padding():
    assert vllm_kernel("AWQ").padding == vllm_kernel("").padding == (1, 1)
    assert vllm_kernel("MXFP4").padding == (256, 128)


def test_memory_ranges_are_ordered():
    known = vllm_profile()
    ranges = [overheads().context, overheads().workspace, known.beside, known.beside_parallel, known.context]
    assert all(low <= usual <= high for low, usual, high in ranges)
