from unslow.look.command_line import Flag, Flags

WORDS = ["server", "--key", "abc", "-c", "8", "--key=def", "--key"]
FLAGS = Flags({"key": Flag(("--key",), secret=True)})


def test_secrets_are_masked_and_other_words_stay():
    assert FLAGS.without_secrets(WORDS) == ["server", "--key", "KEY", "-c", "8", "--key=KEY", "--key"]


def test_a_flag_without_its_secret_stays():
    assert FLAGS.without_secrets(["server", "--key"]) == ["server", "--key"]


def test_all_flags_of_a_name_are_removed():
    assert FLAGS.without(WORDS, ["key"]) == ["server", "-c", "8"]
    assert FLAGS.without(WORDS, []) == WORDS
