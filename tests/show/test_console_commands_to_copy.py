from rich.console import Group

from unslow.facts.commands import Place, labelled_line
from unslow.show.console import TextConsole, command_text, commands

LONG = f"llama-server -m {'x' * 80}.gguf -c 8192"
CODE = 'import torch\nwith torch.inference_mode():\n    print("```")'


def test_commands_to_copy_are_neither_wrapped_nor_cut_in_a_terminal():
    console = TextConsole(width=40, color=False)
    console.print(Group(command_text(LONG), command_text(labelled_line(Place.PYTHON, CODE), 4)), crop=False)
    assert console.text == f"  {LONG}\nin Python:\n{CODE}"


def test_markdown_keeps_multi_line_code_in_one_block():
    text = "\n".join(commands([labelled_line(Place.PYTHON, CODE), "pip install hqq"]))
    assert text == f"\nIn Python:\n````python\n{CODE}\n````\n```sh\npip install hqq\n```"
