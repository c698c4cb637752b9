from unslow.look.command_line import with_secrets_hidden, without_words

WORDS = ["server", "--key", "abc", "-c", "8", "--key=def", "--key"]


def test_a_secret_is_replaced_and_the_rest_stays():
    assert with_secrets_hidden(WORDS, [(1, 3), (5, 6)]) == ["server", "--key", "KEY", "-c", "8", "--key=KEY", "--key"]


def test_a_flag_that_lacks_its_secret_gets_none():
    assert with_secrets_hidden(WORDS, [(6, 7)]) == WORDS


def test_words_are_taken_out_in_whatever_order_they_are_named():
    assert without_words(WORDS, [(1, 3), (6, 7), (5, 6)]) == ["server", "-c", "8"]
    assert without_words(WORDS, []) == WORDS
