"""Mojibake is found where it is, and nowhere in real prose of other languages."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cleanpipe.text.mojibake import NAMES, NOTHING, find_mojibake

# (right text, charset it was read as, kind by which it is found)
DAMAGED = [
    ("Le café est fermé", "cp1252", "cp1252"),
    ("déjà vu", "latin-1", "cp1252"),
    ("Größe", "cp1252", "cp1252"),
    ("naïve “quoted” text…", "latin-1", "cp1252"),
    ("It’s", "cp1252", "cp1252"),
    ("an – dash", "cp1252", "cp1252"),
    ("5 € each", "cp1252", "cp1252"),
    ("10\xa0km", "cp1252", "cp1252"),
    ("właściwie", "cp1252", "cp1252"),
    ("přílišně", "latin-1", "cp1252"),
    ("ağaç", "cp1252", "cp1252"),
    ("tiếng Việt", "latin-1", "cp1252"),
    ("Привет, мир", "latin-1", "cp1252"),
    ("Γειά σου", "latin-1", "cp1252"),
    ("こんにちは", "latin-1", "cp1252"),
    ("नमस्ते", "latin-1", "cp1252"),
    ("smile 😀", "latin-1", "cp1252"),
    ("\ufeffBOM", "cp1252", "cp1252"),
    ("HÔTEL", "latin-1", "cp1252"),
    ("lost \ufffd char", "cp1252", "cp1252"),
    ("Привет", "cp1251", "cp1251"),
    ("It’s", "cp1251", "cp1251"),
    ("café", "cp1251", "cp1251"),
    ("It’s", "cp437", "cp437"),
    ("café", "cp437", "cp437"),
    ("naïve", "cp437", "cp437"),
    ("Привет", "cp437", "cp437"),
    ("It’s", "mac_roman", "macroman"),
    ("café", "mac_roman", "macroman"),
    ("café", "cp1250", "cp1250"),
    ("właściwie", "cp1250", "cp1250"),
]


@pytest.mark.parametrize(("text", "charset", "kind"), DAMAGED)
def test_utf8_read_as_another_charset(text, charset, kind):
    damaged = text.encode().decode(charset)
    for around in (damaged, f"Some words, {damaged} and more.", f"{damaged}\n{damaged}"):
        found = find_mojibake(around)
        assert list(found.counts) == [kind]
        start, end, mended = found.places[0]
        assert around[start:end].encode(charset, "replace") == mended.encode() or kind == "cp1252"
    assert NAMES[kind]


@pytest.mark.parametrize("text", ["café", "It’s here", "Straße und Größe"])
def test_read_wrongly_twice(text):
    damaged = text.encode().decode("latin-1").encode().decode("latin-1")
    assert list(find_mojibake(f"So {damaged}.").counts) == ["cp1252_twice"]


@pytest.mark.parametrize("text", ["voilà tout", "déjà, là", "10\xa0km", "un mot\xa0: deux", "là"])
def test_the_blank_of_a_cleaned_corpus_hides_nothing(text):
    damaged = text.encode().decode("latin-1").replace("\xa0", " ")
    assert list(find_mojibake(damaged).counts) == ["cp1252"]


CLEAN = [
    "Le garçon naïf a mangé où l’été « était » à côté : déjà vu, Noël, cœur, Ÿ, À l’aube, ÇA VA, «\xa0oui\xa0»",
    "“AMANHÃ”, «IRMû e «MANHû… A SÃO JOÃO, AVÓ”, É “bom”, à “noite”. NÃO—SIM. ROMÃ’",
    "„Groß“ und „Maß“, ‚Fuß‘, Straße…, SÜSS“, Ä“, Ö”, »schön«, Ü–Ä, große\xadn, ß\xad",
    "SMÅ” ord, “PÅ”… ÅÄÖ, på”, Å›, små–stora, ”ÖVER”",
    "Zażółć gęślą jaźń „Łódź” – ŁÓDŹ… ŚĆ”, ĘĄ“",
    "Příliš žluťoučký kůň „úpěl“ ďábelské ódy – Úžasné, ÚŽAS, Žíž, Íš, Ýš",
    "ŞŢ ăşti, RĂŞINĂ, „ROMÂN”, Â”, “LÂ”, pâine — lângă…, Ăsta, ĂŞTIA, Ăştia",
    "„Ā“, Čaks, ģimene – Šķirne. Ņ",
    "Рівне, Сім’я, Її, «СССР», Ріка, ГІРКО, Гіркий, Ґанок, Ёлка, в Ёлках, Сі, Рі, С’їв, СЂ, Србија, Ђорђе, Вікно, ЊУ",
    "pipe\\tВідкрити, файлыВіктор, x=Відень, Гімн",
    "Ở đâu… “đã” Ế, ĐÃ” ĐÃ… Ở “ĐÂU”, lâu™, â“, Ấ, Nguyễn Văn Ánh «ở đây», à…, ê”",
    "Η ¨ανατροφή¨ δυστυχώς, «Ελλάδα» – ΕΛΛΆΔΑ…, Î“?",
    "नमस्ते दुनिया। यह हिन्दी है… “उद्धरण”",
    "这是中文“引号”——省略号……《书》",
    "これは日本語「かぎ」…です。",
    "ありがとう ¨ ´ ` √9 = 3, 2√π, x√2, a≈b, ¬p ∧ q, ├── src, │   └── a, ┬─┴─┐ ╨╤",
    "café €5, £3, ©2020, ®, ™, °C, ½, «x», ¿Qué?, ¡Hola!, ÀÉÎÕÜ, ÁÉÍÓÚ",
    "MÄ£ÄM ÌÑÌ Q £ÄGÌ GÄLÄW ÑÍCH SÖÄ£",
    "IRMÃ, MAÇÃ. VÂ LÂ 5 Â, 3Ã, à Â a, Â; Đã Â. iÃo, mÂn, xÃ1",
    "( o¬ô ) ¯\\_(ツ)_/¯ ƒ(x)",
    "Günther’s “naïve” œuvre – Æsop’s façade… Øre”, Þ”, Ð”",
]


@pytest.mark.parametrize("text", CLEAN)
def test_real_text_is_left_alone(text):
    assert find_mojibake(text) is NOTHING
    assert find_mojibake(text.upper()) is NOTHING
    assert find_mojibake(text.replace(" ", "\xa0")) is NOTHING


@given(st.text(alphabet=st.characters(max_codepoint=0x17F, exclude_categories=["Cc", "Cs"]), max_size=40))
def test_the_places_are_what_re_encodes_to_utf8(text):
    found = find_mojibake(text)
    assert bool(found.counts) == bool(found.places)
    assert len(found.without(text)) == len(text) - sum(end - start for start, end, _ in found.places)
    for start, end, mended in found.places:
        assert 0 <= start < end <= len(text)
        assert 0 < len(mended) < end - start + 1


@example(" í")
@example(" í ")
@given(st.text(alphabet="abcéèüößñçøåłżßáíóú ", min_size=1, max_size=60).filter(lambda t: not t.isascii()))
def test_letters_of_western_europe_are_always_found(text):
    assert find_mojibake(" a" + text.encode().decode("latin-1") + "a ").counts or "à" in text
