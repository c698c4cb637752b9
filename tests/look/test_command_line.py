from unslow.look.command_line import with_secrets_hidden, without_words

WORDS = ["server", "--key", "abc", "-c", "8", "--key=def", "--key"]


def test_secrets_are_masked_and_other_words_stay():
    assert with_secrets_hidden(WORDS, [(1, 3), (5, 6)]) == ["server", "--key", "KEY", "-c", "8", "--key=KEY", "--key"]


def test_a_flag_without_its_secret_stays():
    assert with_secrets_hidden(WORDS, [(6, 7)]) == WORDS


def test_words_are_removed_in_any_order():
    assert without_words(WORDS, [(1, 3), (6, 7), (5, 6)]) == ["server", "-c", "8"]
    assert without_words(WORDS, []) == WORDS
