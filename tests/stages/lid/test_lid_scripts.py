"""Scripts of text, and labels that they rule out."""

from __future__ import annotations

import unicodedata

import pytest

from cleanpipe_stages.lid.scripts import SCRIPTS, impossible, letters_by_script, script_of

TEXTS = [
    ("plain words", "Latn"),
    ("naïve café, déjà vu", "Latn"),
    ("Доброе утро, John", "Cyrl"),
    ("Καλημέρα", "Grek"),
    ("שלום עולם", "Hebr"),
    ("مرحبا بالعالم", "Arab"),
    ("नमस्ते दुनिया", "Deva"),
    ("สวัสดีชาวโลก", "Thai"),
    ("東京の天気はどうですか", "Hira"),
    ("今天天气很好", "Hani"),
    ("カタカナ", "Kana"),
    ("안녕하세요", "Hang"),
    ("გამარჯობა", "Geor"),
    ("Բարեւ աշխարհ", "Armn"),
    ("ᏂᎦᏓ ᎠᏂᏴᏫ", "Cher"),
    ("ሰላም ለዓለም", "Ethi"),
    ("Ｆｕｌｌ ｗｉｄｔｈ", "Latn"),
    ("𝐦𝐚𝐭𝐡", ""),
    ("\N{GRINNING FACE}", ""),
]


@pytest.mark.parametrize(("text", "script"), TEXTS)
def test_script(text, script):
    assert script_of(letters_by_script(text)) == script


IMPOSSIBLE = [
    ("ru", "Smotritel kazhdyy vecher", True),
    ("ru", "Смотритель каждый вечер", False),
    ("ru", "Смотритель open source software", False),  # a third Cyrillic
    ("en", "Смотритель каждый вечер", True),
    ("en", "plain words", False),
    ("ja", "plain words of a page", True),
    ("ja", "今天天气很好", False),  # Han alone may be Japanese
    ("zh", "カタカナだけのテキスト", True),
    ("ko", "안녕하세요 world", False),
    ("sr", "Čuvar meri košnice", False),
    ("sr", "Чувар мери кошнице", False),
    ("srp_Cyrl", "Čuvar meri košnice", True),  # the label itself names a script
    ("zho_Hant", "今天天氣很好", False),
    ("vie_Latn", "北京大观园", True),  # lid218e's answers to Chinese (fairseq#5438, #5325)
    ("bod_Tibt", "北京大观园", True),
    ("arb_Arab", "陣陣秋風處處地奔走", True),
    ("eng_Latn", "儿童英语启蒙", True),
    ("kor_Hang", "今天天气很好", True),
    ("jpn_Jpan", "안녕하세요 여러분", True),
    ("zho_Hans", "これはかなだけのぶんです", True),
    ("yue_Hant", "今天天气很好", False),  # of the same letters: no script tells them apart
    ("vi", "Chào buổi sáng", False),
    ("xx", "whatever", False),  # of a language in no table nothing is ruled out
    ("es", "ᏂᎦᏓ ᎠᏂᏴᏫ", True),
    ("zh", "𝐦𝐚𝐭𝐡 𝐥𝐞𝐭𝐭𝐞𝐫𝐬", True),
]


@pytest.mark.parametrize(("label", "text", "expected"), IMPOSSIBLE)
def test_impossible(label, text, expected):
    assert impossible(label, letters_by_script(text)) == expected


# of each script a word that starts Unicode's names of its letters
NAMES = {
    "Latn": "LATIN", "Grek": "GREEK", "Cyrl": "CYRILLIC", "Armn": "ARMENIAN", "Hebr": "HEBREW", "Arab": "ARABIC",
    "Deva": "DEVANAGARI", "Beng": "BENGALI", "Guru": "GURMUKHI", "Gujr": "GUJARATI", "Taml": "TAMIL", "Telu": "TELUGU",
    "Knda": "KANNADA", "Mlym": "MALAYALAM", "Sinh": "SINHALA", "Thai": "THAI", "Laoo": "LAO", "Tibt": "TIBETAN",
    "Mymr": "MYANMAR", "Geor": "GEORGIAN", "Hang": "HANGUL", "Ethi": "ETHIOPIC", "Khmr": "KHMER", "Mong": "MONGOLIAN",
    "Hira": "HIRAGANA", "Kana": "KATAKANA", "Hani": "CJK", "Cher": "CHEROKEE", "Thaa": "THAANA", "Orya": "ORIYA",
}  # fmt: skip


@pytest.mark.parametrize(("script", "name"), NAMES.items())
def test_letters_as_unicode_names_them(script, name):
    found = [chr(n) for n in range(0x20000) if chr(n).isalpha() and unicodedata.name(chr(n), "").startswith(name + " ")]
    wide = [c for c in found if ord(c) < 0x10000]
    right = [c for c in wide if letters_by_script(c + "é")[SCRIPTS.index(script)] >= 1]
    assert len(wide) > 20
    assert len(right) >= 0.97 * len(wide), [c for c in wide if c not in right][:20]
