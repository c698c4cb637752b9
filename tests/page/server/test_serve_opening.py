"""Where the page is opened, and how one gets to it over SSH."""

import pytest

from unslow.page.server.serve import tunnel_command, way_to_open

SSH = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 22", "DISPLAY": ":10"}


@pytest.mark.parametrize(
    ("environment", "platform", "way"),
    [
        ({"DISPLAY": ":0"}, "linux", "browser"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", "browser"),
        ({}, "linux", "address"),
        ({}, "darwin", "browser"),
        (SSH, "linux", "tunnel"),
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", "tunnel"),
    ],
)
def test_browser_opens_only_with_a_local_display(environment, platform, way):
    assert way_to_open(environment, platform) == way


def test_ssh_tunnel_uses_the_same_port_on_both_ends():
    command = tunnel_command(4711, SSH)
    assert command.startswith("ssh -N -L 4711:127.0.0.1:4711 ")
    assert command.endswith("@192.0.2.9")
    other = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 2222"}
    assert " -p 2222 " in tunnel_command(4711, other)
    assert tunnel_command(4711, {}).endswith("@THIS_MACHINE")
