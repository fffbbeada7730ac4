from whisperbatch.decoding.prompt_leakage import echoes, suspects

PROMPT = ["kubernetes", "istio", "and", "envoy", "today"]


def test_a_run_of_the_prompts_words_is_suspicious() -> None:
    words = ["so", "kubernetes", "istio", "and", "envoy", "run"]
    assert suspects(words, PROMPT) == [1, 2, 3, 4]


def test_single_words_of_the_prompt_are_not() -> None:
    assert suspects(["we", "talk", "of", "kubernetes", "and", "of", "envoy", "today"], PROMPT) == []
    assert suspects(["istio", "and", "kubernetes"], PROMPT) == []


def test_a_text_that_is_all_from_the_prompt_is_suspicious() -> None:
    assert suspects(["envoy"], PROMPT) == [0]
    assert suspects(["istio", "and"], PROMPT) == [0, 1]
    assert suspects(["of", "envoy"], PROMPT) == []


def test_nothing_is_suspicious_in_nothing() -> None:
    assert suspects([], PROMPT) == []
    assert suspects(["envoy"], []) == []


def test_words_with_nothing_in_their_place_are_echoes() -> None:
    words = ["kubernetes", "istio", "and", "envoy", "so", "we", "begin"]
    suspicious = suspects(words, PROMPT)
    assert echoes(words, ["so", "we", "begin"], suspicious) == [0, 1, 2, 3]
    assert echoes(words, [], suspicious) == [0, 1, 2, 3]


def test_words_that_are_spelled_otherwise_are_not() -> None:
    words = ["we", "use", "kubernetes", "istio", "and", "envoy", "here"]
    plain = ["we", "use", "cooper", "netties", "easter", "and", "on", "void", "here"]
    assert echoes(words, plain, suspects(words, PROMPT)) == []


def test_words_that_are_not_suspicious_stay() -> None:
    words = ["hello", "kubernetes", "istio", "and", "envoy", "hello", "we", "begin"]
    assert echoes(words, ["we", "begin"], suspects(words, PROMPT)) == [1, 2, 3, 4]
