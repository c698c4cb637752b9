import pytest

from unslow.catalog.runtimes import overheads, vllm_kernel, vllm_profile, vllm_release, vllm_releases


def test_versions_are_in_order_and_start_where_the_engine_does():
    versions = [r.since for r in vllm_releases()]
    assert versions == sorted(set(versions))
    assert versions[0] == (0, 8)


@pytest.mark.parametrize(
    ("version", "since"), [((0, 19), (0, 18)), ((0, 20), (0, 20)), ((0, 3), (0, 8)), ((7, 0), (0, 29))]
)
def test_a_version_counts_as_the_last_change_before_it(version, since):
    assert vllm_release(version).since == since


def test_everything_has_a_source():
    told = [vllm_kernel("MXFP4"), *vllm_releases(), overheads(), vllm_profile()]
    assert all(len(entry.source) > 5 for entry in told)


def test_most_packings_want_nothing_of_their_own():
    assert vllm_kernel("AWQ").padding == vllm_kernel("").padding == (1, 1)
    assert vllm_kernel("MXFP4").padding == (256, 128)


def test_ranges_are_ranges():
    known = vllm_profile()
    ranges = [overheads().context, overheads().workspace, known.beside, known.beside_parallel, known.context]
    assert all(low <= usual <= high for low, usual, high in ranges)
