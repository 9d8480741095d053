"""Lines of furniture: notices on cookies and rights, calls to share or subscribe, crumbs, labels. By language, as data.

A line is furniture if its words, the case of letters aside, are a label of the list; if it is at most ``SHORT``
characters long and holds a phrase; or if it is a row of crumbs: three or more parts between ``>``, ``»``, ``›``, ``|``
or ``·``, each of at most four words. A text in a language without a list is held against the English one, which pages
of every language carry. What recurs over pages of a site is not seen here: `cleanpipe corpus` counts that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup.hashing import Words, token_hashes
from cleanpipe_stages.heuristics import code_points as cp
from cleanpipe_stages.heuristics.units import Flags, Ints, Units

SHORT = 200
LABELS: Mapping[str, str] = {
    "en": "read more|more|share|tweet|print|e-mail|email|home|menu|search|close|next|previous|back|back to top|"
    "skip to content|skip to main content|skip to navigation|contact|contact us|about|about us|login|log in|sign in|"
    "sign up|register|subscribe|advertisement|sponsored|comments|leave a comment|reply|share this|related posts|"
    "related articles|tags|categories|archives|sitemap|site map|terms|privacy|load more|show more|view all|see all|"
    "add to cart|add to basket|learn more|continue reading|follow us|loading|toggle navigation|newsletter|cookies",
    "de": "weiterlesen|mehr|mehr erfahren|teilen|drucken|startseite|menü|suche|suchen|schließen|weiter|zurück|"
    "nach oben|zum inhalt springen|kontakt|impressum|über uns|anmelden|registrieren|abonnieren|anzeige|werbung|"
    "kommentare|kommentar schreiben|antworten|ähnliche artikel|schlagwörter|kategorien|archiv|datenschutz|agb|"
    "alle anzeigen|in den warenkorb|folgen sie uns|newsletter",
    "fr": "lire la suite|en savoir plus|plus|partager|imprimer|accueil|menu|recherche|rechercher|fermer|suivant|"
    "précédent|retour|haut de page|aller au contenu|contact|contactez-nous|à propos|connexion|se connecter|"
    "s'inscrire|s'abonner|publicité|commentaires|laisser un commentaire|répondre|articles similaires|catégories|"
    "archives|plan du site|mentions légales|ajouter au panier|suivez-nous|newsletter",
    "es": "leer más|más|compartir|imprimir|inicio|menú|buscar|cerrar|siguiente|anterior|volver|saltar al contenido|"
    "contacto|quiénes somos|sobre nosotros|iniciar sesión|registrarse|suscribirse|publicidad|comentarios|"
    "deja un comentario|responder|artículos relacionados|etiquetas|categorías|archivos|aviso legal|mapa del sitio|"
    "añadir al carrito|síguenos|ver más|ver todo",
    "it": "leggi tutto|leggi di più|continua a leggere|condividi|stampa|home|menu|cerca|chiudi|avanti|indietro|"
    "successivo|precedente|torna su|vai al contenuto|contatti|chi siamo|accedi|registrati|iscriviti|pubblicità|"
    "commenti|lascia un commento|rispondi|articoli correlati|categorie|archivio|note legali|mappa del sito|"
    "aggiungi al carrello|seguici",
    "pt": "leia mais|ler mais|mais|compartilhar|partilhar|imprimir|início|menu|buscar|pesquisar|fechar|próximo|"
    "anterior|voltar|ir para o conteúdo|contato|contacto|sobre nós|quem somos|entrar|cadastre-se|assine|publicidade|"
    "comentários|deixe um comentário|responder|artigos relacionados|categorias|arquivos|mapa do site|siga-nos",
    "nl": "lees meer|meer|delen|afdrukken|home|menu|zoeken|sluiten|volgende|vorige|terug|naar boven|"
    "ga naar de inhoud|contact|over ons|inloggen|aanmelden|registreren|abonneren|advertentie|reacties|reageer|"
    "gerelateerde artikelen|categorieën|archief|sitemap|in winkelwagen|volg ons",
    "pl": "czytaj więcej|czytaj dalej|więcej|udostępnij|drukuj|strona główna|menu|szukaj|zamknij|następny|poprzedni|"
    "wstecz|do góry|przejdź do treści|kontakt|o nas|zaloguj się|zarejestruj się|reklama|komentarze|dodaj komentarz|"
    "odpowiedz|kategorie|archiwum|mapa strony|dodaj do koszyka",
    "ru": "читать далее|подробнее|далее|ещё|поделиться|печать|главная|меню|поиск|закрыть|следующая|предыдущая|назад|"
    "наверх|перейти к содержимому|контакты|о нас|о компании|войти|вход|регистрация|подписаться|реклама|комментарии|"
    "оставить комментарий|ответить|похожие статьи|метки|рубрики|архив|карта сайта|в корзину|читать дальше",
}
PHRASES: Mapping[str, str] = {
    "en": "all rights reserved|privacy policy|cookie policy|terms of use|terms of service|terms and conditions|"
    "uses cookies|use cookies|use of cookies|accept cookies|accept all cookies|sign up for|subscribe to our|"
    "follow us on|share on facebook|share on twitter|click here to|powered by|your email address|your e-mail address|"
    "please enable javascript|javascript is disabled|log in to|you must be logged in|copyright ©|© copyright|"
    "this website uses|by continuing to|unsubscribe at any time|required fields are marked|proudly powered",
    "de": "alle rechte vorbehalten|verwendet cookies|verwenden cookies|nutzt cookies|cookies zu|akzeptieren sie|"
    "datenschutzerklärung|allgemeine geschäftsbedingungen|newsletter anmelden|folgen sie uns|zzgl versandkosten|"
    "inkl mwst|javascript aktivieren|auf facebook teilen|pflichtfelder sind",
    "fr": "tous droits réservés|utilise des cookies|utilisons des cookies|utilisation de cookies|"
    "politique de confidentialité|conditions générales|conditions d'utilisation|inscrivez-vous|abonnez-vous|"
    "suivez-nous sur|partager sur facebook|activer javascript|champs obligatoires",
    "es": "todos los derechos reservados|utiliza cookies|utilizamos cookies|uso de cookies|política de privacidad|"
    "política de cookies|términos y condiciones|condiciones de uso|suscríbete a|síguenos en|compartir en facebook|"
    "campos obligatorios|aceptar cookies",
    "it": "tutti i diritti riservati|utilizza cookie|utilizza i cookie|uso dei cookie|informativa sulla privacy|"
    "privacy policy|cookie policy|termini e condizioni|iscriviti alla|seguici su|condividi su facebook|"
    "campi obbligatori",
    "pt": "todos os direitos reservados|utiliza cookies|usa cookies|usamos cookies|uso de cookies|"
    "política de privacidade|termos de uso|termos e condições|assine nossa|siga-nos no|compartilhar no facebook",
    "nl": "alle rechten voorbehouden|maakt gebruik van cookies|gebruikt cookies|gebruik van cookies|privacyverklaring|"
    "algemene voorwaarden|schrijf je in|volg ons op|deel op facebook",
    "pl": "wszelkie prawa zastrzeżone|wykorzystuje pliki cookies|używa plików cookie|plików cookies|"
    "polityka prywatności|polityką prywatności|zapisz się do|udostępnij na facebooku",
    "ru": "все права защищены|использует файлы cookie|используем файлы cookie|файлы cookie|"
    "политика конфиденциальности|политикой конфиденциальности|пользовательское соглашение|подпишитесь на|"
    "поделиться в",
}
_CRUMBS = (b">", "»".encode(), "›".encode(), b"|", "·".encode(), b"/")
_K = np.uint64(0xD6E8FEB86659FD93)
_LONGEST = 6  # words of a phrase or label


class _Table:
    """Phrases or labels as hashes of their words."""

    def __init__(self, listed: Sequence[str]) -> None:
        by_size: dict[int, list[int]] = {}
        for phrase in listed:
            units = Units([phrase.encode()])
            hashes = _hashes(units)
            by_size.setdefault(hashes.size, []).append(int(_chain(hashes)))
        assert max(by_size) <= _LONGEST, "a phrase of too many words"
        self.by_size = {size: np.array(sorted(found), np.uint64) for size, found in by_size.items()}


@cache
def _tables(language: str) -> tuple[_Table, _Table]:
    own = language if language in LABELS else "en"
    names = {own, "en"}
    labels = sorted({x for n in names for x in LABELS[n].split("|")})
    phrases = sorted({x for n in names for x in PHRASES[n].split("|")})
    return _Table(labels), _Table(phrases)


def furniture(units: Units, languages: Sequence[str]) -> Flags:
    """Which lines are furniture.

    Args:
        units: of texts in small letters (``str.lower``), by tokens.
        languages: ISO 639-1, of each document.
    """
    lines = units.lines
    made = np.zeros(lines.starts.size, np.bool_)
    if not made.size:
        return made
    hashes, first = _hashes(units), units.first_words[:-1]
    count = np.diff(units.first_words)
    short = units.characters(lines.starts, lines.ends) <= SHORT
    owner = lines.owner
    sums = hashes.copy()
    line_of = np.repeat(np.arange(made.size), count)
    stop = units.first_words[1:][line_of]
    places = np.flatnonzero(short[line_of])
    known = sorted({x if x in LABELS else "en" for x in languages})
    mine = {x: np.array([(y if y in LABELS else "en") == x for y in languages], np.bool_)[owner] for x in known}
    for size in range(1, _LONGEST + 1):
        for language in known:
            labels, phrases = _tables(language)
            if size in labels.by_size:
                whole = np.flatnonzero((count == size) & mine[language])
                made[whole] |= np.isin(sums[first[whole]], labels.by_size[size])
            if size in phrases.by_size and places.size:
                here = places[mine[language][line_of[places]]]
                made[line_of[here[np.isin(sums[here], phrases.by_size[size])]]] = True
        every = np.flatnonzero(np.arange(hashes.size) + size < stop)
        sums[every] = sums[every] * _K + hashes[every + size]
        places = places[places + size < stop[places]]
    return made | (_crumbs(units, count) & short)


def _crumbs(units: Units, count: npt.NDArray[np.int64]) -> Flags:
    """Lines of three or more parts between separators, none long."""
    lines, words = units.lines, units.words
    parts = np.zeros(words.starts.size, np.bool_)
    size = words.ends - words.starts
    keys = units.beginnings(words)
    for mark in _CRUMBS:
        parts |= (size == len(mark)) & (keys == int.from_bytes(mark, "little"))
    marks: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(parts)))
    found = marks[units.first_words[1:]] - marks[units.first_words[:-1]]
    real: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(units.kinds & cp.ALNUM != 0)))
    text = real[units.first_words[1:]] - real[units.first_words[:-1]]
    ended = units.flags[units.last(lines)] & cp.TERMINAL != 0
    made: Flags = (found >= 2) & (text <= 4 * (found + 1)) & (text >= 2) & ~ended & (count > 0)
    return made


def _hashes(units: Units) -> Words:
    return token_hashes(units.data, units.words.starts, units.words.ends - units.words.starts)


def _chain(hashes: Words) -> np.uint64:
    total = hashes[:1].copy()
    for value in hashes[1:]:
        total = total * _K + value
    return np.uint64(total[0])
