"""Which languages use Latin letters: a share of ASCII and an upper bound of entropy mean something for them alone."""

from __future__ import annotations

# lid.176's labels, less those of languages that the web writes in two scripts (az, ku, sh, sr, tk, uz)
_CODES = """
af als an ast bar bcl br bs ca cbk ceb co cs csb cy da de diq dsb eml en eo es et eu ext fi fr frr fy ga gd gl
gn hif hr hsb ht hu ia id ie ilo io is it jbo jv kw la lb li lmo lt lv mg min ms mt mwl nah nap nds nl nn no
nov oc pam pap pfl pl pms pt qu rm ro sc scn sco sk sl so sq su sv sw tl tr vec vi vls vo wa war yo
"""
LATIN = frozenset(_CODES.split())


def is_latin(language: str | None) -> bool | None:
    """True for a language in Latin letters, false for another that is known, None where it is unknown.

    Labels with a script of their own (``eng_Latn``) are read by it.
    """
    if not language:
        return None
    if "_" in language:
        return language.endswith("_Latn")
    return language in LATIN
