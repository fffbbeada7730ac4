"""Abbreviations with a full stop, as Whisper writes them in speech.

There are three kinds, because a sentence may end after some abbreviations only:

    NEVER_LAST       a name or another word follows      "Dr. Jones", "z. B. morgen"
    BEFORE_NUMBER    an abbreviation before a number     "No. 5", but "Did he say no. Then"
    MAYBE_LAST       the sentence may end                "at Smith Inc. in York", "pens, etc. Then"

The tables contain titles, and words that are written in full only rarely. Initials ("J. Smith") and
dotted letters ("p.m.", "т.е.") need no table: see `text.sentences`.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

# fmt: off
_NEVER_LAST: Final = MappingProxyType({
    "": "mr mrs ms dr prof st vs ing approx cf",
    "en": "mx mt messrs gen col lt sgt capt cmdr maj adm brig cpl pvt rev fr hon gov sen rep pres "
          "supt dept eg ie",
    "de": "hr hrn fr dipl mag bzw ca vgl bspw evtl ggf inkl exkl zzgl sog geb gest insb insbes "
          "resp allg urspr ehem",
    "fr": "m mm mme mmes mlle mlles mgr me pr ste env ex",
    "es": "sr sra srta sres sras dra dres d dña ud uds vd vds profa lic arq gral cnel excmo excma "
          "mons fr sto sta aprox",
    "pt": "sr sra srs sras dra drs dras d profa eng arq gen cel exmo exma sto sta aprox",
    "it": "sig sigg dott dottssa profssa avv geom on sen mons rag arch cav comm col gen es cfr ca",
    "ca": "sra dra profa sta aprox",
    "gl": "sr sra dra dna profa",
    "ro": "dl dna sf str ex aprox",
    "nl": "dhr mevr mw drs ir ds jhr bijv ca resp evt",
    "af": "mnr mev mej ds bv",
    "sv": "hr fr ca resp",
    "da": "hr fr ca",
    "no": "hr fr ca",
    "nn": "hr fr ca",
    "is": "hr frú sr",
    "fi": "esim ks hra rva",
    "et": "hr pr nt",
    "pl": "p pp hab mgr inż ks św ul al gen płk kpt bp abp np tzn tj tzw",
    "cs": "p pí sl mudr judr phdr mgr bc doc sv ul tzv tj např resp mj",
    "sk": "p pí sl mudr judr phdr mgr bc doc sv ul tzv tj napr resp",
    "sl": "g ga dipl sv ul npr tj oz",
    "hr": "g gđa gosp mr sv ul npr tj tzv odn",
    "bs": "g gđa gosp mr sv ul npr tj tzv odn",
    "sr": "g gđa gosp sv ul npr tj tzv odn др проф св ул нпр тј тзв",
    "mk": "др проф св ул пр",
    "bg": "г-н г-жа проф акад св ул напр",
    "ru": "г-н г-жа проф акад доц им ул св см ср напр тов гр",
    "uk": "проф акад доц ім вул св див напр тов гр",
    "be": "праф акад ім вул св гл напр",
    "kk": "проф акад",
    "hu": "ifj id özv pl kb ún ill vö",
    "lt": "p pvz",
    "lv": "piem",
    "tr": "doç av sn bkz örn hz",
    "az": "prof dos məs",
    "el": "κ κα κος δρ καθ αγ",
    "id": "tn ny sdr bpk ir drs jl",
    "ms": "tn en pn sdr jl",
    "vi": "ts gs ths bs tp",
    "tl": "g gng bb",
    "hi": "डॉ प्रो सं कु",
    "mr": "डॉ प्रा श्री",
    "ne": "डा प्रा",
    "bn": "ড ডা মো প্রফেসর",
    "gu": "ડૉ પ્રો",
    "pa": "ਡਾ ਪ੍ਰੋ",
    "ta": "டாக்டர் திரு",
    "te": "డా ప్రొ",
    "kn": "ಡಾ ಪ್ರೊ",
    "ml": "ഡോ പ്രൊഫ",
    "th": "ดร ผศ รศ ศ นพ",
})

_BEFORE_NUMBER: Final = MappingProxyType({
    "": "no nr nos n° nº p pp pg vol vols fig figs art ch cap kap sec sect tab "
        "jan feb apr jun jul aug sep sept oct nov dec",
    "de": "abs abb s okt dez febr mär",
    "fr": "chap janv févr juil déc",
    "es": "núm pág págs ene abr ago dic",
    "pt": "núm pág págs fev abr ago set out dez",
    "it": "pag gen mag giu lug ago set ott dic",
    "nl": "blz hfst okt",
    "sv": "kl sid okt",
    "da": "kl okt",
    "no": "kl okt des",
    "nn": "kl okt des",
    "pl": "godz str poz ust pkt ok",
    "cs": "č čp str",
    "sk": "č str",
    "hr": "br str",
    "bs": "br str",
    "sr": "br str бр стр",
    "bg": "стр бр",
    "ru": "стр рис гл п ст пп",
    "uk": "стор рис гл п ст",
    "hu": "sz old",
    "fi": "klo s",
    "tr": "s",
    "el": "αρ σελ",
})

_MAYBE_LAST: Final = MappingProxyType({
    "": "etc inc ltd co corp jr sr al",
    "en": "bros ave blvd rd ft lb lbs oz",
    "de": "usw uvm dgl jh jhd mio mrd tel str",
    "fr": "boul",
    "es": "cía hnos",
    "it": "ecc",
    "nl": "enz",
    "sv": "osv mfl kr",
    "da": "osv kr",
    "no": "osv kr",
    "nn": "osv kr",
    "fi": "jne yms ym",
    "et": "jne jms",
    "pl": "itd itp zł tys mln mld",
    "cs": "atd apod tis mil",
    "sk": "atď tis mil",
    "sl": "itd ipd",
    "hr": "itd sl",
    "bs": "itd sl",
    "sr": "itd sl итд сл",
    "bg": "др пр лв млн хил",
    "ru": "др пр гг вв руб коп тыс млн млрд",
    "uk": "ін рр ст грн тис млн млрд",
    "be": "інш",
    "hu": "stb",
    "lt": "kt",
    "lv": "utt",
    "tr": "vb vs",
    "ro": "ș.a",
    "el": "κλπ κτλ",
    "id": "dll dsb dst tbk",
    "ms": "dll dsb",
})
# fmt: on


def never_last(language: str) -> frozenset[str]:
    """Return the abbreviations after which a sentence never ends, in lower case, without stop."""
    return _words("never", language) - maybe_last(language)


def before_number(language: str) -> frozenset[str]:
    """Return the abbreviations that stand before a number."""
    return _words("number", language)


def maybe_last(language: str) -> frozenset[str]:
    """Return the abbreviations after which a sentence may end."""
    own = frozenset(_NEVER_LAST.get(language, "").split())
    return _words("maybe", language) - own


_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "never": _NEVER_LAST,
    "number": _BEFORE_NUMBER,
    "maybe": _MAYBE_LAST,
}


@cache
def _words(table: str, language: str) -> frozenset[str]:
    words = _TABLES[table]
    return frozenset(f"{words['']} {words.get(language, '')}".split())
