from unslow.look.kernel.processes import mount_of, parse_mounts

TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 8:1 / /home rw shared:1 master:2 - xfs /dev/sda1 rw
31 30 8:17 /my\040models /home/a\040b rw - ext4 /dev/sdb1 rw
32 30 0:40 / /home/a\040b rw - nfs4 box:/models rw
garbage
1 2 3 - x
"""


def test_only_well_formed_mountinfo_lines_are_parsed():
    mounts = parse_mounts(TABLE)
    assert [m.point for m in mounts] == ["/proc", "/", "/home", "/home/a b", "/home/a b"]
    assert mounts[3].root == "/my models"


def test_the_deepest_mount_wins_and_of_equal_ones_the_later():
    mounts = parse_mounts(TABLE)
    assert mount_of("/home/a b/c", mounts).source == "box:/models"
    assert mount_of("/home/ab", mounts).source == "/dev/sda1"
    assert mount_of("/homework", mounts).source == "/dev/vda"
    assert mount_of("/", mounts).source == "/dev/vda"


def test_an_empty_mount_table_gives_no_mount():
    assert mount_of("/", parse_mounts("\x00\xff")) is None
