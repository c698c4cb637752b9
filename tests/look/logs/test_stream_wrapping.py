import pytest

from unslow.look.logs.stream import decoded_line, unwrapped_line

LINE = "load_tensors: offloaded 20/33 layers to GPU"


@pytest.mark.parametrize(
    "wrapped",
    [
        f"Nov 15 11:36:55 box ollama[812]: {LINE}",
        f"Nov  5 01:36:55 my-host.lan llama-server[1]: {LINE}",
        f"2026-08-22T10:00:00+0200 box ollama[812]: {LINE}",
        f"2026-08-22T10:00:00.123456789Z stderr F {LINE}",
        f"2026-08-22T10:00:00.123456789Z {LINE}",
        f"2026-08-22 10:00:00 {LINE}",
        f"ollama-1  | {LINE}",
        f"ollama  | 2026-08-22T10:00:00.1Z {LINE}",
        f"> {LINE}",
        f"> > {LINE}",
        '{"log":"load_tensors: offloaded 20/33 layers to GPU\\n","stream":"stderr","time":"2026-08-22T10:00:00Z"}',
        LINE,
    ],
)
def test_journal_docker_and_kubernetes_prefixes_are_stripped(wrapped: str):
    assert unwrapped_line(wrapped) == LINE


@pytest.mark.parametrize(
    "line",
    [
        "",
        "| model | size | params |",
        "qwen3 8B | 4.68 GiB | 8.19 B",
        "my speed is 5 tok/s",
        "Mem:            62Gi       8.0Gi        20Gi",
        '{"log":"cut off',
        '{"log":' + "[" * 5000,
    ],
)
def test_lines_without_a_wrapper_stay_unchanged(line: str):
    assert unwrapped_line(line) == line


def test_escaped_quotes_in_docker_json_are_decoded():
    assert decoded_line('{"log":"msg=\\"inference compute\\" library=cpu\\n"}') == 'msg="inference compute" library=cpu'
