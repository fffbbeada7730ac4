"""Where lines and cues end, in each language: no break inside a phrase, a name or a number."""

from itertools import pairwise

import pytest

from tests.unit.transcripts import segment, transcript
from whisperbatch.types import Word
from whisperbatch.writers import SubtitleOptions
from whisperbatch.writers.cues import cues
from whisperbatch.writers.layout import measure


def shown(text: str, language: str, words: list[str] | None = None) -> str:
    """Return the cues of a text, with "|" between lines and "||" between cues."""
    timed = [Word(n, n + 1, word, 0.5) for n, word in enumerate(words)] if words else None
    spoken = segment(text, 0, len(words) if words else 60, language=language, words=timed)
    options = SubtitleOptions(max_cue_duration=None, max_reading_speed=None)
    found = cues(transcript(spoken), options)
    return " || ".join(" | ".join(line.text for line in cue.lines) for cue in found)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The committee met Dr. | Alexander Hamilton and the old | Mrs. Eleanor Roosevelt."),
        ("en", "After a short walk they went from there to No. | 10 Downing Street on foot."),
        ("en", "I hope we shall both forget this unhappy | morning that has been spoilt."),
        ("en", "The engineers say that the new modem sends 28.8 | kilobytes a second."),
        ("en", "We will be moving the whole company to New | York at the end of summer."),
        ("de", "Wir sind gestern Abend noch einmal zu Herrn Dr. | Schneider gefahren, glaube ich."),
        ("de", "Das neue Gebäude wird erst zum 3. | Mai des nächsten Jahres fertig gebaut sein."),
        ("fr", "Vous pouvez laisser votre message après le | signal sonore de cet appareil."),
        ("fr", "Nous avons rencontré hier soir Mme | Lefèvre dans les rues du vieux centre."),
        ("es", "Por favor marque el número de la extensión del | departamento de ventas ahora."),
        ("it", "La segreteria telefonica ha registrato per Lei il | messaggio di questa mattina."),
        ("pt", "O presidente falou ontem com o ministro da | economia sobre os novos impostos."),
        ("nl", "Onze minister at gisteravond met mevr. | Jansen in een oud restaurant."),
        ("pl", "Wczoraj rozmawialiśmy z prof. | Nowakiem o nowych planach naszego instytutu."),
        ("ru", "Вчера мы разговаривали в | институте с профессором о новых планах."),
        ("uk", "Учора ми розмовляли в | інституті з професором про нові плани."),
        ("ar", "تحدثنا أمس مع الوزير الجديد عن | الخطط الاقتصادية للسنوات القادمة كلها"),
        ("he", "דיברנו אתמול עם השר החדש על | התוכניות הכלכליות של השנים הבאות כולן"),
        ("hi", "हमारे देश में बहुत सारे लोग हर दिन काम | के लिए शहर में आते हैं और वापस जाते हैं"),
        ("ko", "우리는 어제 서울에서 처음으로 만날 | 수 있었습니다 그래서 아주 기뻤습니다"),
        ("tr", "Bugün sizinle birlikte yeni bir okul | için çalışmaya başladık ve çok sevindik."),
    ],
)
def test_no_line_ends_where_an_even_width_would_end_it(language: str, text: str) -> None:
    """The text has "|" where the break must not be."""
    plain = text.replace("| ", "")
    found = shown(plain, language).replace("||", "|")
    assert found.replace("| ", "") == plain
    assert "|" in found
    for before, after in pairwise(text.split(" | ")):
        assert f"{before.split()[-1]} | {after.split()[0]}" not in found


@pytest.mark.parametrize(
    ("language", "text", "lines"),
    [
        (
            "en",
            "Please enter the first three letters of your party's last name.",
            "Please enter the first three letters | of your party's last name.",
        ),
        (
            "en",
            "That is what I said to him, but he would never listen to me.",
            "That is what I said to him, | but he would never listen to me.",
        ),
        (
            "de",
            "Er sagte gestern zu uns allen, dass er morgen nach Berlin reist.",
            "Er sagte gestern zu uns allen, | dass er morgen nach Berlin reist.",
        ),
        (
            "fr",
            "Tous nos représentants sont présentement occupés avec d'autres clients",
            "Tous nos représentants sont présentement | occupés avec d'autres clients",
        ),
        (
            "fr",
            "Voulez-vous vraiment écouter encore une fois ce message ?",
            "Voulez-vous vraiment écouter | encore une fois ce message ?",
        ),
    ],
)
def test_a_line_ends_before_a_phrase(language: str, text: str, lines: str) -> None:
    assert shown(text, language) == lines


@pytest.mark.parametrize(
    "text",
    [
        "新しい計画には、およそ1,200億円の費用がかかると見られていて、国会で話し合われています。",
        "昨日の会議には300人の学生が来て、新しい学校について長い時間話し合いました。",
        "私たちは毎日駅から会社まで歩いて行きますが、雨の日はバスに乗ることもあります。",
    ],
)
def test_no_japanese_line_begins_with_a_particle_or_a_counter(text: str) -> None:
    lines = shown(text, "ja").replace("||", "|").split(" | ")
    assert "".join(lines) == text
    assert len(lines) > 2
    assert all(line[0] not in "はがをにでとへもの億円人万" for line in lines)


def test_a_thai_line_ends_at_a_space() -> None:
    text = "โครงการนี้ครอบคลุมพื้นที่ทั้งหมดของประเทศ และจะทำงานร่วมกับหน่วยงานอื่น"
    assert shown(text, "th") == text.replace(" ", " | ")


def test_a_long_thai_phrase_is_divided_between_two_tokens() -> None:
    words = ["โครงการ", "นี้", "ครอบคลุม", "พื้นที่", "ทั้งหมด", "ของ", "ประเทศ", "และ", "จะ", "ทำงาน"]
    text = "".join(words)
    lines = shown(text, "th", words).replace("||", "|").split(" | ")
    assert len(lines) > 1
    starts = {sum(map(len, words[:n])) for n in range(len(words) + 1)}
    stops = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    assert set(stops) <= starts


def test_chinese_particles_stay_with_their_word() -> None:
    text = "我们昨天在北京参加了一个非常重要的会议讨论了关于未来五年经济发展的计划和预算"
    lines = shown(text, "zh").replace("||", "|").split(" | ")
    assert len(lines) > 1
    assert all(line[0] not in "的了着过" for line in lines)


@pytest.mark.parametrize(
    ("text", "language", "cheaper", "dearer"),
    [
        ("Well, I know", "en", "Well,", "I"),
        ("the modem sends data", "en", "modem", "the"),
        ("see Dr. Jones now", "en", "Jones", "Dr."),
        ("He came. Then he", "en", "came.", "He"),
        ("at 5 p.m. He came", "en", "p.m.", "5"),
        ("Meet J. Smith there", "en", "Smith", "J."),
        ("in the year 2020 they came", "en", "2020", "year"),
        ("it's mine and it's good", "en", "mine", "it's"),
        ("Il a dit : bonjour mes amis", "fr", ":", "dit"),
        ("wait – then he came", "en", "–", "wait"),
    ],
)
def test_costs_of_breaks(text: str, language: str, cheaper: str, dearer: str) -> None:
    units = measure(text, (), language).units
    costs = {text[unit.first : unit.stop]: unit.break_cost for unit in units[:-1]}
    assert costs[cheaper] < costs[dearer]


def test_a_word_that_stands_alone_is_no_line() -> None:
    found = shown("Extraordinarily good examples of this may be found everywhere", "en")
    assert all(" " in line for line in found.split(" | "))
