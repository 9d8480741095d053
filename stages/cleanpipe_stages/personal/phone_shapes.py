"""How telephone numbers are written, and the words before a number that say what it is."""

from __future__ import annotations

import re

from cleanpipe_stages.html.names import names_of

_BLANK = "[ \u00a0\u202f]"
_GAP = (
    rf"(?:{_BLANK}?[-./\u2010-\u2013]{_BLANK}?|{_BLANK}{{1,2}}"
    rf"|{_BLANK}?\){_BLANK}?[-/]?{_BLANK}?|{_BLANK}?\({_BLANK}?)"
)
RUN = re.compile(rf"[0-9](?<![A-Za-z0-9_][0-9])(?:{_GAP}?[0-9]){{5,24}}(?![A-Za-z0-9_])")
"""Digits with separators between them, from the first digit on: a set comes first, so that it is found fast."""
FRONT = re.compile(r"(?<![A-Za-z0-9_+(])(?:\(?\+\(?|\()\Z")

CODES = names_of(
    "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86"
    " 90 91 92 93 94 95 98 211 212 213 216 218 290 291 297 298 299 420 421 423 800 808 850 852 853 855 856 870 878 880"
    " 881 882 883 886 888"
) | frozenset(
    str(code)
    for first, last in ((220, 269), (350, 359), (370, 389), (500, 509), (590, 599), (670, 692), (960, 977), (992, 998))
    for code in range(first, last + 1)
)
"""Country codes of ITU E.164."""

_WORDS = (
    "tele?|telephones?|phones?|ph|fax|fx|telefax|mob|mobile?|cell|cellular|call|dial|hotline|helpline|toll[ -]?free|"
    "whatsapp|sms|text|contact|telefono|telefon|telefonnummer|handy|mobil|rufnummer|durchwahl|téléphone|tél|portable|"
    "teléfono|teléf|tfno|móvil|celular|llame|fone|telefone|telemóvel|cellulare|telefoon|tlf|puh|puhelin|телефон|тел|"
    "факс|моб|звоните"
)
_AND = "no|nr|number|numbers|num|№|us|now|today|at|on|me|free|office|home|work|support|service"
_SIGNS = (
    "☎|☏|📞|📱|✆|电话|電話|手机|手機|传真|傳真|热线|熱線|联系|致电|携帯|ファックス|전화|팩스|휴대폰|هاتف|فون|फोन|โทร"
)
SAID = re.compile(
    rf"(?:\b(?:{_WORDS})\b\.?(?: (?:{_AND}))*\.?|\b[TFPM](?=[:.])|{_SIGNS})[\s:：.\-–=#()/+]{{0,6}}\Z", re.IGNORECASE
)
"""What says that a telephone number follows."""
NOT = re.compile(
    r"(?:\b(?:isbn(?:-1[03])?|issn|isin|ean|upc|gtin|sku|mfr|mpn|asin|doi|pmid|arxiv|imei|iban|bic|vat|ust-?id(?:nr)?|"
    r"siret|siren|nif|cif|abn|ein|ssn|no|nr|num|number|id|ref(?:erence)?|order|invoice|case|ticket|item|part|model|"
    r"serial|s/n|p/n|account|acct|card|konto|kto|blz|patent|lot|batch|page|pages|pp|p|vol|line|zip|postal|plz|bug|issue|"
    r"code|pin|version|v|build|rfc|артикул|инн|огрн|кпп|бик|счет|№)\b\.?|[#№$€£¥₹%]|\b(?:usd|eur|gbp|rs|us\$))"
    r"[\s:.\-=#]{0,3}\Z",
    re.IGNORECASE,
)
"""What says that something else follows."""
UNIT = re.compile(
    r"\s?(?:usd|eur|gbp|km|kg|mm|cm|m²|km²|bytes?|kb|mb|gb|hz|people|dollars?|euros?|million)\b|\s?[%€$£¥°]",
    re.IGNORECASE,
)
DATE = re.compile(
    r"(?<!\d)(?:(?:1[89]|20)\d\d[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:0?[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])[-./](?:0?[1-9]|[12]\d|3[01])[-./](?:(?:1[89]|20)\d\d|\d\d))(?!\d)"
)
YEARS = re.compile(r"(?:1[5-9]|20)\d\d[ ]?[-–/. ][ ]?(?:1[5-9]|20)\d\d\Z")

NANP = re.compile(r"(?:1[-. ]?[ ]?)?(?:\([2-9]\d\d\)[-. ]?[ ]?|[2-9]\d\d[-./])[2-9]\d\d[-. ]\d{4}\Z")
"""North America: area code in brackets, or before a hyphen, full stop or slash."""
FRANCE = re.compile(r"0[1-9](?:([ .-])\d\d)(?:\1\d\d){3}\Z")
NATIONAL = (
    FRANCE,
    *(
        re.compile(rf"(?:{shape})\Z")
        for shape in (
            r"\(?0[1-9]\d{1,3}\)? ?\d{3,4}[ -]\d{3,4}",  # United Kingdom, Ireland, Australia
            r"\(0\d\) ?\d{4}[ -]?\d{4}",  # Australia
            r"0\d{4} \d{6}|0\d{3} \d{3} \d{2} \d{2}",  # United Kingdom, Turkey
            r"0\d{2} \d{3} \d{2} \d{2}|04\d\d \d{3} \d{3}",  # Switzerland, Australia
            r"\(?0[1-9]\d{1,4}\)?[ ]?[/-][ ]?\d{2,4}(?:[ ]?\d{2,4}){0,3}(?:-\d{1,4})?",  # Germany, Austria, Italy
            r"\(0[1-9]\d{1,4}\) ?\d{3,4}(?: ?\d{2,4}){0,3}(?:[ -]\d{1,4})?",
            r"0[1-9]\d{1,4} \d{5,8}(?:-\d{1,4})?",
            r"0[1-9]\d{0,2}-\d{2,4}-\d{4}",  # Japan, Korea
            r"0[1-9]\d{1,2}-\d{7,8}(?:-\d{1,4})?",  # China
            r"01[016789]-\d{3,4}-\d{4}|1[3-9]\d[ -]\d{4}[ -]\d{4}",  # mobile: Korea, China
            r"0[1-9]\d?-\d{6,8}|0\d[ -]\d{4}[ -]\d{4}",  # Netherlands, Italy
            r"[78][ -]?\(\d{3,5}\)[ -]?\d{1,3}[ -]\d\d[ -]\d\d|8[ -]\d{3}[ -]\d{3}[ -]\d\d[ -]\d\d",  # Russia
            r"\(\d{2}\) ?9?\d{4}-\d{4}",  # Brazil
            r"1[38]00 \d{3} \d{3}|1[ -]8(?:00|33|44|55|66|77|88)[ -]\d{3}[ -]\d{4}|0?8[05]0 ?\d{3} ?\d{3,4}",  # free
        )
    ),
)
