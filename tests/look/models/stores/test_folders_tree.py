import os

import pytest

from unslow.facts.values import Absence
from unslow.look.models.stores import _folders
from unslow.look.models.stores._folders import read_tree
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem


def paths(root, **more):
    return [leaf.path for leaf in read_tree(LiveSystem(), str(root), **more).leaves]


def test_the_tree_lists_files_with_size_and_time(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"123")
    os.utime(tmp_path / "a" / "x", (0, 86_400))
    leaf = read_tree(LiveSystem(), str(tmp_path)).leaves[0]
    assert (leaf.path, leaf.folder, leaf.name, leaf.bytes) == ("a/x", "a", "x", 3)
    assert leaf.modified_at == "1970-01-02T00:00:00+00:00"


def test_links_are_followed_and_hard_links_share_an_inode(tmp_path):
    (tmp_path / "blob").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("blob")
    os.link(tmp_path / "blob", tmp_path / "twin")
    leaves = read_tree(LiveSystem(), str(tmp_path)).leaves
    assert {leaf.bytes for leaf in leaves} == {5}
    assert len({leaf.inode for leaf in leaves}) == 1


def test_a_broken_link_has_size_minus_one(tmp_path):
    (tmp_path / "link").symlink_to("gone")
    assert read_tree(LiveSystem(), str(tmp_path)).leaves[0].bytes == -1


def test_a_cycle_of_links_terminates(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "x").write_text("")
    assert paths(tmp_path) == ["a/x"]


def test_pipes_and_undecodable_names_are_left_out(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with open(os.fsencode(tmp_path) + b"/\xff.gguf", "w"):
        pass
    assert paths(tmp_path) == []


def test_the_depth_of_the_tree_is_bounded(tmp_path):
    deep = tmp_path / "1" / "2"
    deep.mkdir(parents=True)
    (deep / "x").write_text("")
    (tmp_path / "y").write_text("")
    assert paths(tmp_path, deepest=0) == ["y"]
    assert paths(tmp_path, deepest=1) == ["y"]
    assert paths(tmp_path, deepest=2) == ["1/2/x", "y"]


def test_the_number_of_entries_is_bounded(tmp_path, monkeypatch):
    for n in range(5):
        (tmp_path / str(n)).write_text("")
    monkeypatch.setattr(_folders, "MOST_ENTRIES", 3)
    tree = read_tree(LiveSystem(), str(tmp_path))
    assert tree.cut
    assert len(tree.leaves) == 3


def test_a_missing_folder_is_a_look_error(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file", "nowhere"):
        with pytest.raises(LookError) as caught:
            read_tree(LiveSystem(), str(tmp_path / name))
        assert caught.value.absence is Absence.NOT_FOUND
    with pytest.raises(LookError):
        read_tree(LiveSystem(), "nul\0byte")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_reported(tmp_path):
    (tmp_path / "mine").mkdir(mode=0)
    tree = read_tree(LiveSystem(), str(tmp_path))
    assert "Permission denied" in tree.unreadable[0]
