"""Words that belong to the word after them or before them, where a line should not end.

There are three kinds, by the side on which a line may end:

    OPENING     conjunctions, relative pronouns, most prepositions    we waited | for the train
    LEANING     articles, possessives, auxiliaries, negations         I took | the train
    TRAILING    particles and postpositions, after their word         घर में | आते हैं

A line ends well before an OPENING word. A line ends badly after an OPENING or a LEANING word, and
before a TRAILING word.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

# fmt: off
_OPENING: Final = MappingProxyType({
    "en": "and or but nor so yet because although though while when whenever where wherever "
          "whether if unless until since after before as than that which who whom whose what how "
          "why in on at by for from to with without within into onto over under about above "
          "across against along among around behind below beneath beside between beyond despite "
          "during except inside near off outside through throughout toward towards upon via per "
          "like",
    "de": "und oder aber denn sondern doch weil obwohl während wenn falls bevor nachdem seit bis "
          "als dass daß ob wie wo was wer wen wem warum wieso damit sodass indem sowie bzw in im "
          "ins an am ans auf aus bei beim mit nach von vom zu zum zur für durch ohne gegen um "
          "über unter vor hinter neben zwischen wegen trotz statt gegenüber entlang ab außer "
          "innerhalb",
    "fr": "et ou mais donc or ni car que qui dont où quand lorsque puisque comme si quoique "
          "parce afin pour par avec sans sous sur dans en à au aux chez vers entre contre depuis "
          "pendant avant après jusque jusqu devant derrière malgré selon parmi dès lorsqu puisqu "
          "qu",
    "es": "y e o u pero sino ni que quien quienes cual cuales cuyo cuya donde cuando como porque "
          "aunque mientras si pues en a al con sin por para sobre entre hasta desde hacia contra "
          "según durante ante bajo tras",
    "it": "e ed o od ma né che chi cui dove quando come perché poiché sebbene mentre se anche in "
          "nel nello nella nei negli nelle nell a ad al allo alla ai agli alle all da dal dallo "
          "dalla dai dagli dalle dall con senza per su sul sullo sulla sui sugli sulle sull tra "
          "fra verso contro durante dopo prima",
    "pt": "e ou mas nem que quem cujo cuja onde quando como porque embora enquanto se pois em no "
          "na nos nas num numa a ao à aos às com sem por pelo pela pelos pelas para sobre entre "
          "até desde contra segundo durante após sob",
    "nl": "en of maar want dus dat die omdat hoewel terwijl als wanneer toen voordat nadat "
          "totdat sinds wie wat waar hoe waarom in op aan bij met naar voor door zonder tegen om "
          "over onder achter naast tussen tijdens vanaf tot uit per via binnen buiten",
    "pl": "i a oraz lub albo ale lecz że żeby aby by bo ponieważ gdy kiedy jeśli jeżeli choć "
          "chociaż więc który która które którzy których którym gdzie jak czy co kto w we na z "
          "ze do od dla po przez przed za pod nad o u przy między bez podczas ku według",
    "ru": "и а но или либо что чтобы если когда потому поскольку хотя пока как так где куда "
          "откуда который которая которое которые которого которой которых кто чем в во на с со "
          "к ко о об от до из у за под над по при для без через перед между про после около",
    "uk": "і й та а але або чи що щоб якщо коли бо тому оскільки хоча поки як де куди звідки "
          "який яка яке які якого якої яких хто ніж у в на з із зі до від для без через перед "
          "між про після біля під над по при за",
    "ar": "و أو ثم لكن ولكن بل أن إن لأن لكي حتى إذا لو عندما حيث بينما كما الذي التي الذين "
          "اللذان ما من في على إلى عن مع بين عند منذ خلال بعد قبل فوق تحت أمام خلف دون ضد نحو "
          "حول وفي ومن",
    "he": "או אבל אך כי אם כאשר כש למרות בגלל מפני אשר איפה מתי איך למה מי מה של על אל עם את בין "
          "לפני אחרי תחת מעל ליד בלי ללא עד מן אצל נגד דרך",
    "hi": "और या लेकिन मगर परंतु कि क्योंकि अगर यदि जब जहाँ जो जिस जिसे जिसका जिसकी जिसके जैसे "
          "ताकि तो",
    "ko": "그리고 그러나 하지만 그래서 또는 혹은 및 그런데 왜냐하면 만약",
    "tr": "ve veya ya ama fakat ancak çünkü eğer ki yoksa hem",
    "sv": "och eller men att som när om eftersom medan därför i på av till från med utan för "
          "över under mellan efter före vid hos genom mot",
    "da": "og eller men at som når hvis fordi mens i på af til fra med uden for over under "
          "mellem efter før ved hos gennem mod",
    "no": "og eller men at som når hvis fordi mens i på av til fra med uten for over under "
          "mellom etter før ved hos gjennom mot",
    "cs": "a i nebo ale že aby když pokud protože ačkoli který která které kteří kde jak v ve na "
          "s se z ze do od pro po přes před za pod nad o u při mezi bez",
    "ca": "i o però que qui on quan com perquè si de del dels en a al als amb sense per sobre "
          "entre fins des",
    "ro": "și sau dar că să care unde când cum dacă deoarece în din la cu fără pe de despre "
          "pentru prin sub între după până",
    "el": "και ή αλλά ότι που όταν αν γιατί πως να με σε για από στο στη στην στον στους στις "
          "χωρίς μετά πριν μεταξύ κατά",
    "vi": "và hoặc nhưng rằng mà khi nếu vì để của trong trên ở tại với cho từ đến về bằng theo",
    "id": "dan atau tetapi tapi bahwa yang ketika jika karena untuk di ke dari pada dengan tanpa "
          "dalam oleh tentang antara",
})

_LEANING: Final = MappingProxyType({
    "en": "of a an the this that these those my your his her its our their some any every each "
          "no not very too more most much many such both i you he she it we they am is are was "
          "were be been being have has had do does did will would shall should can could may "
          "might must cannot never let lets there just only also even mr mrs ms dr t s re ll ve "
          "m d",
    "de": "der die das den dem des ein eine einen einem einer eines kein keine keinen keinem "
          "keiner mein meine meinen meinem meiner dein deine sein seine seinen seinem seiner ihr "
          "ihre ihren ihrem ihrer unser unsere unseren euer eure dieser diese dieses diesen "
          "diesem jede jeder jedes jeden jedem ich du er sie es wir man nicht sehr zu so ist "
          "sind war waren bin bist hat haben habe hatte hatten wird werden würde kann können "
          "konnte muss müssen soll sollen will wollen darf",
    "fr": "de du des le la les l un une d ce cet cette ces mon ma mes ton ta tes son sa ses "
          "notre nos votre vos leur leurs quel quelle quels quelles chaque plusieurs quelques je "
          "j tu il elle on nous vous ils elles ne n se s me m te t c y très trop plus moins est "
          "sont était étaient suis es sommes êtes sera seront ai as a avons avez ont avait "
          "avaient va vont peut peuvent doit doivent fait si tout toute tous toutes",
    "es": "de del el la los las lo un una unos unas este esta estos estas ese esa esos esas "
          "aquel aquella mi mis tu tus su sus nuestro nuestra nuestros nuestras cada algún "
          "alguna algunos algunas ningún todo toda todos todas no muy más tan se me te le les "
          "nos yo él ella usted ustedes ellos ellas es son era eran fue fueron ha han he hemos "
          "había habían está están será serán puede pueden debe deben va van",
    "it": "di del dello della dei degli delle dell il lo la i gli le l un uno una questo questa "
          "questi queste quel quello quella quei quegli quelle mio mia miei mie tuo tua tuoi tue "
          "suo sua suoi sue nostro nostra nostri nostre vostro vostra loro ogni qualche non "
          "molto più meno si mi ti ci vi ne io tu lui lei noi voi è sono era erano sarà saranno "
          "ho hai ha abbiamo avete hanno aveva avevano può possono deve devono va vanno sta "
          "stanno c d",
    "pt": "de do da dos das o os as um uma uns umas este esta estes estas esse essa esses essas "
          "aquele aquela meu minha meus minhas teu tua seu sua seus suas nosso nossa nossos "
          "nossas cada algum alguma alguns algumas nenhum todo toda todos todas não muito mais "
          "tão me te lhe lhes eu tu ele ela você nós vocês eles elas é são era eram foi foram "
          "está estão será serão tem têm havia pode podem deve devem vai vão",
    "nl": "van de het een dit deze die dat mijn jouw je uw zijn haar ons onze hun elk elke ieder "
          "iedere geen niet zeer heel te zo ik jij u hij zij ze wij we jullie er is was waren "
          "ben bent heeft hebben heb had hadden wordt worden werd zal zullen zou kan kunnen kon "
          "moet moeten mag mogen wil willen",
    "pl": "nie ten ta to te ci tego tej tych tym mój moja moje twój twoja jego jej ich nasz "
          "nasza wasz każdy każda bardzo jest są był była było byli były będzie będą może mogą "
          "musi muszą ja ty on ona ono my wy oni one",
    "ru": "не ни этот эта это эти этого этой этих тот та те мой моя моё мои твой ваш ваша ваше "
          "ваши наш наша наше наши его её их свой своя своё свои каждый каждая очень более самый "
          "был была было были будет будут может могут я ты он она оно мы вы они",
    "uk": "не ні цей ця це ці цього цієї цих той та те ті мій моя моє мої твій ваш ваша ваше "
          "ваші наш наша наше наші його її їх свій кожен кожна дуже більш був була було були "
          "буде будуть може можуть я ти він вона воно ми ви вони",
    "ar": "لا لم لن ما قد سوف هل هذا هذه ذلك تلك هؤلاء كل بعض غير كان كانت يكون تكون ليس ليست هو "
          "هي هم أنا نحن أنت كلا أي جدا يا",
    "he": "לא אין יש זה זאת זו אלה אלו כל הוא היא הם הן אני אנחנו אתה אתם היה הייתה היו יהיה "
          "תהיה מאוד יותר גם רק",
    "hi": "यह वह ये वे इस उस इन उन एक मेरा मेरी मेरे आपका आपकी आपके हमारा हमारी हमारे उसका उसकी "
          "उसके इसका इसकी इसके अपना अपनी अपने हर कोई कुछ बहुत नहीं न मत मैं तुम आप हम",
    "ko": "이 그 저 한 두 세 네 각 모든 어떤 무슨 매우 아주 더 안 못 내 제 우리",
    "tr": "bir bu şu o her hiç çok daha en benim senin onun bizim sizin onların ben sen biz siz "
          "onlar bazı birkaç",
    "sv": "en ett den det de min mitt mina din ditt sin sitt sina hans hennes vår vårt våra er "
          "deras varje inte mycket jag du han hon vi ni är var har hade ska skulle kan kunde "
          "måste",
    "da": "en et den det de min mit mine din dit sin sit sine hans hendes vores deres hver ikke "
          "meget jeg du han hun vi i er var har havde skal skulle kan kunne må",
    "no": "en et ei den det de min mitt mine din ditt sin sitt sine hans hennes vår vårt våre "
          "deres hver ikke veldig jeg du han hun vi dere er var har hadde skal skulle kan kunne "
          "må",
    "cs": "ten ta to ti ty můj moje tvůj jeho její jejich náš naše váš každý každá ne velmi je "
          "jsou byl byla bylo byli bude budou může mohou já on ona my oni",
    "ca": "el la els les l un una uns unes aquest aquesta aquests aquestes meu seva seu seves no "
          "molt més és són era eren ha han he hem",
    "ro": "un o unei unui acest această acești aceste meu mea tău său sa lor nu foarte mai este "
          "sunt era erau a au am ai",
    "el": "ο η το οι τα τον την του της των τους τις ένας μια ένα αυτός αυτή αυτό δεν μην θα "
          "πολύ είναι ήταν έχει έχουν μου σου",
    "vi": "một những các này kia mỗi mọi không chưa rất tôi anh chị nó chúng họ là đã đang sẽ có",
    "id": "sebuah seorang para setiap semua tidak belum sangat lebih akan sudah telah sedang "
          "adalah saya kamu dia kami kita mereka ini itu",
})

_TRAILING: Final = MappingProxyType({
    "fr": "pas jamais rien là-bas ci",
    "pl": "się",
    "ru": "же ли бы",
    "uk": "ж же б би",
    "hi": "का की के को से में पर ने तक द्वारा लिए साथ बाद पहले ही भी है हैं था थी थे हूँ हो गा "
          "गी गे होता होती होते रहा रही रहे गया गई गए वाला वाली वाले",
    "ko": "수 것 것을 것이 것은 때 때문에 뿐 만큼 대로 줄 적 채 등 있다 있는 있습니다 없다 없는 "
          "없습니다 합니다 했습니다 않습니다 개 명 번 년 월 일 시 분 원",
    "tr": "ile için gibi kadar göre sonra önce doğru rağmen de da mi mı mu mü dır dir değil var "
          "yok olan olarak",
    "vi": "ạ nhé nhỉ",
})
# fmt: on


def opening(language: str) -> frozenset[str]:
    """Return the words with which a phrase begins, case-folded."""
    return _words("opening", language)


def leaning(language: str) -> frozenset[str]:
    """Return the words that belong to the next word and do not begin a phrase, case-folded."""
    return _words("leaning", language)


def trailing(language: str) -> frozenset[str]:
    """Return the words that belong to the word before them, case-folded."""
    return _words("trailing", language)


_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "opening": _OPENING,
    "leaning": _LEANING,
    "trailing": _TRAILING,
}


@cache
def _words(table: str, language: str) -> frozenset[str]:
    return frozenset(_TABLES[table].get(language, "").casefold().split())
