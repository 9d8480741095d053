"""Names of elements by what a parser does with them (HTML standard, 13.2.4 and 13.2.6)."""

from __future__ import annotations


def names_of(names: str) -> frozenset[str]:
    """The names in one line."""
    return frozenset(names.split())


FORMATTING = names_of("a b big code em font i nobr s small strike strong tt u")
VOID = names_of("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
RAW = names_of("script style textarea title xmp iframe noembed noframes")
IGNORED = names_of("html head body frameset colgroup")  # a colgroup holds nothing that nests but templates
HEADINGS = names_of("h1 h2 h3 h4 h5 h6")
PARTS = names_of("caption tbody thead tfoot tr td th")
BLOCKS = HEADINGS | names_of(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header"
    " hgroup main menu nav ol p search section summary ul pre listing form plaintext"
)
# ends that close what lies above their element, where it is in scope
CLOSING = (BLOCKS | names_of("button select")) - HEADINGS - names_of("p form")
SPECIAL = (
    BLOCKS
    | VOID
    | PARTS
    | names_of(
        "applet button colgroup dd dt html iframe li marquee noembed noframes noscript object script select style"
        " table template textarea title xmp"
    )
) - names_of("dialog")
MATH_TEXT = names_of("=mi =mo =mn =ms =mtext")
INTEGRATION = MATH_TEXT | names_of(":foreignobject :desc :title =annotation-html")
STOPS = SPECIAL | INTEGRATION | names_of("=annotation-xml")  # "special" of the standard
SCOPE = names_of("applet caption html table td th marquee object select template =annotation-xml") | INTEGRATION
BUTTON_SCOPE, LIST_SCOPE = SCOPE | {"button"}, SCOPE | names_of("ol ul")
TABLE_SCOPE = names_of("table template html")
IMPLIED = names_of("dd dt li optgroup option p rb rp rt rtc")
# of the standard's list; "sup" stays with the parser in use
LEAVES_FOREIGN = names_of(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strong strike sub table tt u ul var"
)
KEEPS_FORMATTING_SHUT = (  # elements before which formatting is not opened again
    BLOCKS
    | PARTS
    | IGNORED
    | names_of("li dd dt table template rb rt rp rtc hr param source track base basefont bgsound link meta")
    | (RAW - {"xmp"})
)
MARKED = names_of("applet marquee object template td th caption")


# what opens after closing a paragraph, and does nothing else
SIMPLE = BLOCKS - HEADINGS - names_of("form plaintext")
# what opens, with the formatting that waits, and does nothing else
PHRASES = names_of("span label cite abbr time sup sub bdi bdo dfn kbd mark q samp var del ins")
# an end that closes the innermost element and does nothing else
PLAIN = (BLOCKS - names_of("form p plaintext")) | names_of("p span li dd dt label option button ruby")
