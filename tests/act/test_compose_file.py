import pytest

from unslow.act.command_words import NotUnderstoodError
from unslow.act.compose import command_of, edited_compose, services

OLD = ["/app/llama-server", "-m", "/models/x.gguf", "-c", "32768", "--port", "8080"]
NEW = ["/app/llama-server", "-m", "/models/x.gguf", "--port", "8080", "-c", "8192", "-ot", 'a"$b']
TAME = [*NEW[:-1], "exps=CPU"]
FRAME = """# kept
x-base: &base
  restart: always
services:
  web: {{image: nginx, command: ["x"]}}
  "llama":  # the model
    <<: *base
    image: ghcr.io/ggml-org/llama.cpp:server
{command}
    ports: ["8080:8080"]   # as is
    healthcheck:
      command: ["-m", "/models/x.gguf", "-c", "32768", "--port", "8080"]
volumes: {{}}
"""
FORMS = {
    "flow": '    command: ["-m", "/models/x.gguf", "-c", "32768", "--port", "8080"]  # why',
    "flow plain": "    command: [-m, /models/x.gguf, -c, '32768', --port, \"8080\"]",
    "flow lines": '    command: [\n      "-m", "/models/x.gguf",\n      "-c", "32768",\n      "--port", "8080",\n    ]',
    "rows": '    command:\n      - -m\n      - /models/${M:-x}.gguf # which\n      # c\n      - "-c"\n'
    "      - '32768'\n\n"
    '      - --port\n      - "8080"',
    "rows below": "    command:\n    - -m\n    - /models/x.gguf\n    - -c\n    - '32768'\n    - --port\n    - '8080'",
    "program too": '    command: ["/app/llama-server", "-m", "/models/x.gguf", "-c", "32768", "--port", "8080"]',
}
TEXTS = {
    "one line": "    command: -m /models/x.gguf -c 32768 --port 8080   # why",
    "quoted": '    command: "-m /models/x.gguf -c 32768 --port 8080"',
    "single": "    command: '-m $M -c 32768 --port 8080'",
    "folded": "    command: >-\n      -m /models/x.gguf\n      -c 32768\n      --port 8080\n",
    "literal": "    command: |\n      -m /models/x.gguf -c 32768 --port ${PORT}",
}


def check(command: str, new: list[str]) -> str:
    text = FRAME.format(command=command)
    after = edited_compose(text, "llama", OLD, new)
    words = command_of(after, "llama").words
    wanted = new[len(new) - len(words) :]
    assert [word.value for word in words if not word.pattern] == [
        w for w, s in zip(wanted, words, strict=True) if not s.pattern
    ]
    before, behind = text.split(command)
    assert after.startswith(before)
    assert after.endswith(behind)
    comments = [part for part in ("# why", "# which", "# c\n") if part in command]
    assert all(part in after for part in comments)
    return after[len(before) : len(after) - len(behind)]


@pytest.mark.parametrize("form", FORMS)
def test_a_compose_command_list_is_edited_and_every_other_byte_stays(form):
    edited = check(FORMS[form], NEW)
    assert '"a\\"$$b"' in edited
    assert "32768" not in edited


@pytest.mark.parametrize("form", TEXTS)
def test_a_compose_command_string_is_edited_if_no_word_needs_quotes(form):
    assert "-c 8192" in check(TEXTS[form], TAME)
    with pytest.raises(NotUnderstoodError, match="quotes"):
        check(TEXTS[form], NEW)


def test_block_list_items_keep_their_lines():
    assert check(FORMS["rows below"], TAME) == (
        '    command:\n    - -m\n    - /models/x.gguf\n    - --port\n    - \'8080\'\n    - "-c"\n    - "8192"\n'
        '    - "-ot"\n    - "exps=CPU"'
    )


def test_the_first_words_of_a_command_can_be_removed():
    text = 'services:\n  a:\n    command: ["-c", "1", "-m", "x"]\n'
    after = edited_compose(text, "a", ["p", "-c", "1", "-m", "x"], ["p", "-m", "x", "-c", "2"])
    assert after == 'services:\n  a:\n    command: ["-m", "x", "-c", "2"]\n'


def test_compose_services_are_listed():
    assert services(FRAME.format(command=FORMS["flow"])) == ["web", "llama"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("    image: x", "no 'command'"),
        ("    command: *other", "starts with"),
        ("    command: &a [-m, x]", "starts with"),
        ("    command: [-m, [x]]", "more than plain words"),
        ("    command: [-m, /models/x.gguf", "closed|more than"),
        ("    command:\n      - -m: x", "more than plain words"),
        ("    command:\n      - >-\n        -m", "starts with|more than"),
        ("    command: -m /models/x.gguf\n      -c 32768 --port 8080", "several lines"),
        ("    command: sh -c '-m x'", "quotes"),
        ("    command: [-m, /models/x.gguf, -c, '1', --port, '8080']", "not the running one"),
        ("    command: [-m, '$(x)', -c, '32768', --port, '8080']", "variable"),
        ("    command: []", "empty"),
        ("    command: [-m]\n    command: [-m]", "more than one"),
        ("    command:\t[-m]", "tabs"),
        ("    command: ['a]", "closed"),
    ],
)
def test_an_uncertain_compose_command_is_not_edited(command, why):
    with pytest.raises(NotUnderstoodError, match=why):
        edited_compose(FRAME.format(command=command), "llama", OLD, NEW)


@pytest.mark.parametrize(
    "text",
    [
        "    x-doc: 'as in@    here'",
        '    x-doc: "as in@    here"',
        "    labels:\n      - a\n      - !!str 'as in@    here'",
        "    labels: [a, 'as in@    here']",
        '    labels: {a: "\\"as in@    here"}',
        "    labels: [\n      'as in@    here']",
    ],
)
def test_a_command_inside_a_quoted_multi_line_text_is_not_edited(text, wording):
    """Docker Compose reads each of these as one string, and a service without a command."""
    text = text.replace("@", "\n    command: [-m, /models/x.gguf, -c, 32768, --port, 8080]\n")
    for command in (text, f"{FORMS['flow']}\n{text}"):
        with pytest.raises(NotUnderstoodError) as caught:
            edited_compose(FRAME.format(command=command), "llama", OLD, NEW)
        wording(str(caught.value))


@pytest.mark.parametrize(
    "other",
    [
        "    x-doc: it's a \"plain\" one, isn't it - that's all  # don't, \"",
        "    x-doc: 'it''s' # don't",
        '    x-doc: "a \\" b"  # \'',
        "    x-doc: |\n      \"not closed\n      command: [x]\n\n      it's",
        "    x-doc: >-  # 'why\n      - 'not closed",
        "    # 'a comment",
        "    environment:\n      - A='b c\n      - B=\"",
    ],
)
def test_closed_and_plain_quotes_elsewhere_do_not_prevent_an_edit(other):
    command = f"{other}\n{FORMS['flow']}"
    after = edited_compose(FRAME.format(command=command), "llama", OLD, NEW)
    assert after.count("8192") == 1
    assert other in after


def test_a_change_of_program_in_compose_is_refused():
    with pytest.raises(NotUnderstoodError, match="another program"):
        edited_compose(FRAME.format(command=FORMS["flow"]), "llama", OLD, ["/other", *NEW[1:]])


def test_several_yaml_documents_are_not_edited():
    text = FRAME.format(command=FORMS["flow"])
    assert edited_compose(f"---\n{text}", "llama", OLD, NEW)
    with pytest.raises(NotUnderstoodError, match="documents"):
        edited_compose(f"{text}---\n{text}", "llama", OLD, NEW)
