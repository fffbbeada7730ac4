from whisperbatch.decoding.hallucinations import leaked_words, suspicious_words

PROMPT = ["kubernetes", "istio", "and", "envoy", "today"]


def test_a_run_of_the_prompts_words_is_suspicious() -> None:
    words = ["so", "kubernetes", "istio", "and", "envoy", "run"]
    assert suspicious_words(words, PROMPT) == [1, 2, 3, 4]


def test_single_words_of_the_prompt_are_not_suspicious() -> None:
    words = ["we", "talk", "of", "kubernetes", "and", "of", "envoy", "today"]
    assert suspicious_words(words, PROMPT) == []
    assert suspicious_words(["istio", "and", "kubernetes"], PROMPT) == []


def test_a_short_text_is_suspicious_if_all_its_words_are_from_the_prompt() -> None:
    assert suspicious_words(["envoy"], PROMPT) == [0]
    assert suspicious_words(["istio", "and"], PROMPT) == [0, 1]
    assert suspicious_words(["of", "envoy"], PROMPT) == []


def test_empty_texts_and_prompts_are_not_suspicious() -> None:
    assert suspicious_words([], PROMPT) == []
    assert suspicious_words(["envoy"], []) == []


def test_words_that_disappear_without_the_prompt_are_leaked() -> None:
    words = ["kubernetes", "istio", "and", "envoy", "so", "we", "begin"]
    suspicious = suspicious_words(words, PROMPT)
    assert leaked_words(words, ["so", "we", "begin"], suspicious) == [0, 1, 2, 3]
    assert leaked_words(words, [], suspicious) == [0, 1, 2, 3]


def test_words_that_are_only_spelled_differently_are_not_leaked() -> None:
    words = ["we", "use", "kubernetes", "istio", "and", "envoy", "here"]
    without_prompt = ["we", "use", "cooper", "netties", "easter", "and", "on", "void", "here"]
    assert leaked_words(words, without_prompt, suspicious_words(words, PROMPT)) == []


def test_only_suspicious_words_are_leaked() -> None:
    words = ["hello", "kubernetes", "istio", "and", "envoy", "hello", "we", "begin"]
    suspicious = suspicious_words(words, PROMPT)
    assert leaked_words(words, ["we", "begin"], suspicious) == [1, 2, 3, 4]
