"""All personal data of one text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from cleanpipe_stages.personal.addresses import v4_addresses, v6_addresses
from cleanpipe_stages.personal.mail import mails, spelled_mails
from cleanpipe_stages.personal.phones import phones

EMAIL, IP, PRIVATE_IP, PHONE = "email", "ip", "private_ip", "phone"
KINDS = (EMAIL, IP, PRIVATE_IP, PHONE)


@dataclass(frozen=True, slots=True)
class Piece:
    """start, end: code points of the text. kind: one of KINDS. v6: of an IP address, whether it is of version 6."""

    start: int
    end: int
    kind: str
    v6: bool = False


def pieces(text: str) -> list[Piece]:
    """In order, none overlapping: an address first, then what it leaves."""
    found: list[Piece] = [Piece(a, b, EMAIL) for a, b in mails(text)]
    found += _free(found, (Piece(a, b, EMAIL) for a, b in spelled_mails(text)))
    if "." in text:
        found += _free(found, (Piece(a, b, IP if public else PRIVATE_IP) for a, b, public in v4_addresses(text)))
    if ":" in text:
        found += _free(found, (Piece(a, b, IP if public else PRIVATE_IP, True) for a, b, public in v6_addresses(text)))
    found += _free(found, (Piece(a, b, PHONE) for a, b in phones(text)))
    return sorted(found, key=lambda piece: piece.start)


def _end(edge: tuple[int, int]) -> int:
    return edge[0]


def _free(taken: list[Piece], more: Iterator[Piece]) -> list[Piece]:
    """Those that overlap none of the taken, which overlap none of each other."""
    edges = sorted((piece.end, piece.start) for piece in taken)
    out = []
    for piece in more:
        at = bisect_right(edges, piece.start, key=_end)  # the first that ends behind its start
        if at == len(edges) or edges[at][1] >= piece.end:
            out.append(piece)
    return out
