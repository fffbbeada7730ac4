"""Where sentences end. In the texts, "/" is the end of a sentence and "~" is a pause."""

import re

import pytest

from whisperbatch.text.languages import LANGUAGES, UNSPACED
from whisperbatch.text.sentences import Ending, ending


def divided(text: str, language: str) -> str:
    """Return a text with "/" where its sentences end; a pause decides where the text does not."""
    result = sentence = ""
    pieces = re.findall(r"\S~?" if language in UNSPACED else r"\s*\S+", text)
    for index, piece in enumerate(pieces):
        sentence += piece.replace("~", "")
        result += piece.replace("~", "")
        after = "".join(pieces[index + 1 : index + 5]).replace("~", "")
        kind = ending(sentence, after, language) if after else Ending.NONE
        if kind is Ending.SENTENCE or (kind is Ending.IF_PAUSE and "~" in piece):
            result += "/"
            sentence = ""
    return result


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Please hold./ Is it you?/ Yes!/ I see."),
        ("zh", "请稍候。/谢谢！/你好吗？/好。"),
        ("ja", "お待ちください。/ありがとう．/はい｡/そうです。"),
        ("ko", "잠시만 기다려 주세요./ 감사합니다."),
        ("hi", "कृपया प्रतीक्षा करें।/ धन्यवाद॥/ हाँ."),
        ("bn", "দয়া করে অপেক্ষা করুন।/ ধন্যবাদ।"),
        ("ar", "من فضلك انتظر./ هل أنت هنا؟/ نعم."),
        ("ur", "براہ کرم انتظار کریں۔/ کیا آپ ہیں؟/ جی۔"),
        ("fa", "لطفا صبر کنید./ آیا شما هستید؟/ بله."),
        ("he", "אנא המתן./ זה אתה?/ כן."),
        ("am", "እባክዎ ይጠብቁ።/ አመሰግናለሁ።/ አዎ፧/ እሺ።"),
        ("hy", "Խնդրում եմ սպասեք։/ Շնորհակալություն:/ Այո։"),
        ("ka", "გთხოვთ დაელოდოთ./ გმადლობთ."),
        ("el", "Περιμένετε./ Είστε εκεί;/ Ναι."),
        ("my", "ခဏစောင့်ပါ။/ကျေးဇူးတင်ပါတယ်။"),
        ("km", "សូមរង់ចាំ។/អរគុណ។"),
        ("bo", "སྒུག་རོགས།/ཐུགས་རྗེ་ཆེ།"),
        ("ru", "Подождите./ Это вы?/ Да!/ Хорошо."),
        ("es", "Espere./ ¿Es usted?/ ¡Sí!/ «Claro.»/ Bien."),
        ("fr", "Attendez./ C'est vous ?/ Oui !/ « Bien sûr. »/ Bon."),
        ("de", "Bitte warten./ „Sind Sie es?“/ Ja./ »Gut.«/ Schön."),
        ("th", "กรุณารอสักครู่"),
        ("mn", "ᠪᠠᠶᠢᠨ᠎ᠠ᠃/ ᠲᠡᠭᠡᠳ᠃"),
    ],
)
def test_sentences_end_in_every_script(language: str, text: str) -> None:
    assert divided(text.replace("/", ""), language) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Dr. Who met Mr. Jones and Mrs. Smith at St. Paul's."),
        ("en", "Born in the U.S. Navy town of J. R. Smith."),
        ("en", "At 5 p.m. Eastern time, he paid 3.50 for No. 5 on Jan. 3."),
        ("en", "about approx. ten of them, e.g. Apples."),
        ("de", "Herr Dr. Müller kommt z.B. am 3. Mai bzw. Sonntag, d. h. bald, ca. Mittag."),
        ("de", "Kaiser Wilhelm II. Prinz von Preußen, Nr. 5."),
        ("fr", "M. Dupont et Mme. Durand, cf. Article 3, chap. 5."),
        ("es", "El Sr. García y la Dra. López, núm. 5, EE.UU. Y México."),
        ("pt", "O Sr. Silva e a Dra. Souza, pág. 5."),
        ("it", "Il Sig. Rossi e il Dott. Bianchi, pag. 5."),
        ("nl", "Dhr. Jansen en mevr. De Vries, bijv. Maandag."),
        ("sv", "Möte kl. 15 med Dr. Svensson, t.ex. Måndag."),
        ("pl", "Pan dr. Nowak, ul. Długa 5, np. Jutro, 3. Maja."),
        ("cs", "MUDr. Novák, tzv. Praha, č. 5, dne 3. Května."),
        ("ru", "Проф. Иванов, ул. Ленина, т.е. Москва, и А. С. Пушкин, стр. 5."),
        ("uk", "Проф. Шевченко, вул. Лесі, т. Зв."),
        ("tr", "Prof. Yılmaz, örn. Pazartesi, 3. Mayıs."),
        ("hu", "Dr. Kovács, pl. Hétfő, 3. Május."),
        ("el", "Ο κ. Παπαδόπουλος, π.χ. Δευτέρα."),
        ("hi", "डॉ. शर्मा आ रहे हैं।"),
        ("en", "It costs 3.50 or 1,000.25 at example.com in version 2.0.1 today."),
        ("en", "Wait... what is it? he asked."),
        ("en", '"Stop!" he cried. and so on.'),
        ("en", "1. Open the door."),
    ],
)
def test_marks_that_end_no_sentence(language: str, text: str) -> None:
    assert divided(text, language) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "He came at 5 p.m.~/ Then he left the U.S.~/ He works for Smith Inc.~/ It is big."),
        ("en", "I like pens, paper, etc.~/ You do, too."),
        ("en", "Well...~/ I see…~/ Yes."),
        ("de", "Er wurde 3.~/ Dann ging er, usw.~/ Das war 1999./ Danach nichts."),
        ("ru", "Столы, стулья и т.д.~/ Потом мы ушли."),
        ("zh", "嗯……~/好的。"),
        ("ar", "حسنا...~/ نعم."),
    ],
)
def test_a_pause_decides_after_abbreviations_and_ellipses(language: str, text: str) -> None:
    assert divided(text.replace("/", ""), language) == text.replace("~", "")
    assert "/" not in divided(re.sub("[/~]", "", text).partition(" Danach")[0], language)[:12]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", 'He said "no."/ (Really?)/ [Yes.]/ “Good.”/ Then he left.'),
        ("en", "Dial 600./ Thank you./ So do I./ It is 3.5./ Call 911./ No./ I won't."),
        ("en", "I like it./ iPhone users do, too./ - Yes./ - No."),
        ("ja", "「はい。」/『いいえ。』/彼は言った。"),
        ("zh", "“好。”/他说（是的。）/走吧。"),
        ("es", "¡Hola!/ ¿Qué tal?/ —Bien./ —Yo también."),
        ("fr", "« Oui ! »/ « Non. »/ Il part."),
        ("en", "What?!/ Really??/ Oh!!!/ Fine."),
    ],
)
def test_closing_and_opening_marks_belong_to_their_sentences(language: str, text: str) -> None:
    assert divided(text.replace("/", ""), language) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_rules(language: str) -> None:
    assert ending("1 2 x", " Y", language) is Ending.NONE
    assert ending("One two three?", "", language) is Ending.SENTENCE
    assert ending("Two threes.", " 5", language) is Ending.SENTENCE
    assert ending("", "", language) is Ending.NONE
    assert ending(".", "", language) is not Ending.NONE
