"""Which elements a parser holds open, tag by tag: the HTML standard's tree construction without a tree.

It knows what the standard says of closing: scopes, implied ends, tables, templates, forms, and drawings and formulas
(foreign content). tests/stages/test_html_nesting.py compares it with the trees of the parser in use.
"""

from __future__ import annotations

from cleanpipe_stages.html.names import (
    BLOCKS,
    BUTTON_SCOPE,
    CLOSING,
    FORMATTING,
    HEADINGS,
    IGNORED,
    INTEGRATION,
    KEEPS_FORMATTING_SHUT,
    LEAVES_FOREIGN,
    LIST_SCOPE,
    MARKED,
    MATH_TEXT,
    PARTS,
    PHRASES,
    PLAIN,
    RAW,
    SCOPE,
    SIMPLE,
    STOPS,
    TABLE_SCOPE,
    VOID,
    names_of,
)
from cleanpipe_stages.html.open_elements import LEFT, Format, OpenElements

_NOTHING: frozenset[str] = frozenset()
_AROUND = {
    "td": names_of("tr tbody thead tfoot"),
    "th": names_of("tr tbody thead tfoot"),
    "tr": names_of("tbody thead tfoot"),
}


class Nesting(OpenElements):
    """Takes opening and closing tags in order, names in lower case."""

    def start(self, name: str, attributes: str) -> bool:
        """An opening tag, name in lower case. Whether what follows is the element's raw text."""
        stack = self.stack
        if stack and stack[-1][0] in ":=" and self._foreign_start(name, attributes):
            return False
        if not self._templates:
            if name in SIMPLE:
                if self._within["p"]:
                    self._close("p", BUTTON_SCOPE)
                self._push(name)
                return False
            if name in FORMATTING:
                self._format(name, attributes)
                return False
            if name in PHRASES:
                if self.waiting:
                    self._reopen()
                self._push(name)
                return False
        if name == "image":
            name = "img"
        if name in IGNORED:
            self.frames += name == "frameset"
            self.elements += 1
            return False
        if name in PARTS:
            self._part(name)
            return False
        if self._templates and name not in RAW and name not in ("template", "link", "meta", "base"):
            self._in_body()
        if name in FORMATTING:
            self._format(name, attributes)
            return False
        if name in BLOCKS or name in ("table", "hr", "xmp", "li", "dd", "dt"):
            if not self._block(name):
                return False
        elif name == "button":
            self._close("button")
        elif name == "select" or name == "input":
            if self._close("select") and name == "select":
                return False
        elif name == "option" or name == "optgroup":
            if self._place("select", SCOPE - {"select"}) >= 0:
                self._imply("optgroup" if name == "option" else "")
            elif stack and stack[-1] == "option":
                self._cut(len(stack) - 1)
        elif name in ("rb", "rt", "rp", "rtc") and self._place("ruby", SCOPE) >= 0:
            self._imply("rtc" if name in ("rt", "rp") else "")
        if self.waiting and name not in KEEPS_FORMATTING_SHUT:
            self._reopen()
        if name in RAW:
            self.elements += 1
            return True
        if name in VOID:
            self.elements += 1
            self.work += len(stack)
            return False
        if name in ("svg", "math"):
            self.elements += 1
            if not attributes.endswith("/"):
                self.elements -= 1
                self._push((":" if name == "svg" else "=") + name)
            return False
        if name == "form":
            entry = Format(name, "")
            self._form = self._form if self._templates else entry
            self._push(name, entry)
            return False
        self._push(name)
        if name in MARKED:
            self.waiting.append(None)
            if name == "template":
                self._templates.append("")
        return name == "plaintext"

    def _block(self, name: str) -> bool:
        """What closes before a block opens; whether it opens at all."""
        stack = self.stack
        if name == "form":
            if self._form and not self._templates:
                return False
        elif name in ("li", "dd", "dt"):
            names = ("li",) if name == "li" else ("dd", "dt")
            for at in range(len(stack) - 1, -1, -1):
                if stack[at] in names:
                    self._cut(at)
                    break
                if stack[at] in STOPS and stack[at] not in ("address", "div", "p"):
                    self._walked(at)
                    break
        elif name == "table":
            at = self._context()
            if at >= 0 and stack[at] in ("table", "tbody", "thead", "tfoot", "tr"):
                self._close("table", frozenset(("template",)))
        if self._within["p"]:
            self._close("p", BUTTON_SCOPE)
        if name in HEADINGS and stack and stack[-1] in HEADINGS:
            self._cut(len(stack) - 1)
        return True

    def _context(self) -> int:
        """Where the innermost element lies that says how tables are read."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] in PARTS or self.stack[at] in ("table", "template"):
                self._walked(at)
                return at
        return -1

    def _part(self, name: str) -> None:
        """A part of a table opens: it ends its fellows, and makes the parts around it that are missing."""
        at = self._context()
        if at < 0:
            self.elements += 1
            return
        stack = self.stack
        if stack[at] == "template":
            if self._templates[-1] == "body":
                self.elements += 1
                return
            self._templates[-1] = "parts"
            base = at
        else:
            base = at
            while base >= 0 and stack[base] not in ("table", "template"):
                base -= 1
        if stack[at] in ("td", "th", "caption"):
            self._cut(at)
            self._clear_marked()
        stays = _AROUND.get(name, _NOTHING)
        at = base + 1
        while at < len(stack) and stack[at] in stays:
            at += 1
        self._cut(at)
        if base >= 0 and stack[base] == "table":
            if stays and stack[-1] == "table":
                self._push("tbody")
            if name in ("td", "th") and stack[-1] != "tr":
                self._push("tr")
        self._push(name)
        if name in MARKED:
            self.waiting.append(None)

    def end(self, name: str) -> None:
        """A closing tag, name in lower case."""
        stack = self.stack
        if stack:
            top = stack[-1]
            if top == name and name in PLAIN:
                self._within[name] -= 1
                stack.pop()
                self._entries.pop()
                if stack and stack[-1] == LEFT:
                    self._cut(len(stack))
                return
            if top[0] in ":=" and self._foreign_end(name):
                return
        if name in FORMATTING:
            if stack and stack[-1] == name and self.waiting and self.waiting[-1] is self._entries[-1]:
                entry = self.waiting.pop()
                if entry is not None:
                    entry.open = False
                self._within[name] -= 1
                stack.pop()
                self._entries.pop()
                if stack and stack[-1] == LEFT:
                    self._cut(len(stack))
            else:
                self._adopt(name)
        elif name == "p":
            if not (self._within["p"] and self._close("p", BUTTON_SCOPE)):
                self.elements += 1
                self.work += len(stack)
        elif name == "br":
            self._reopen()
            self.elements += 1
            self.work += len(stack)
        elif not stack or not (self._within[name] or name in HEADINGS):
            self.frames -= name == "frameset" and self.frames > 0
            self._form = None if name == "form" else self._form
        elif name in CLOSING:
            self._close(name, SCOPE - {name})
        elif name == "li":
            self._close(name, LIST_SCOPE)
        elif name in ("dd", "dt"):
            self._close(name)
        elif name in HEADINGS:
            for at in range(len(stack) - 1, -1, -1):
                if stack[at] in HEADINGS:
                    self._cut(at)
                    break
                if stack[at] in SCOPE:
                    self._walked(at)
                    break
        elif name == "form":
            self._end_form()
        elif name == "template":
            self._close(name, frozenset())
            self._clear_marked()
        elif name in ("applet", "marquee", "object"):
            if self._close(name, SCOPE - {name}):
                self._clear_marked()
        elif name == "table" or name in PARTS:
            self._end_table(name)
        else:
            self._any_end(name)

    def _end_form(self) -> None:
        if self._templates:
            self._close("form")
            return
        entry, self._form = self._form, None
        if entry is None or not entry.open:
            return
        at = self._entries.index(entry)
        if any(n in SCOPE for n in self.stack[at:]):
            return
        self._imply()
        if at == len(self.stack) - 1:
            self._cut(at)
        else:
            self.stack[at] = LEFT
            self._within["form"] -= 1

    def _end_table(self, name: str) -> None:
        at = self._place(name, TABLE_SCOPE - {name})
        if at < 0:
            return
        if any(n in ("td", "th", "caption") for n in self.stack[at:]):
            self._clear_marked()
        self._cut(at)

    # --- foreign content ---

    def _foreign_start(self, name: str, attributes: str) -> bool:
        """Whether the tag was one of the drawing's or formula's own."""
        stack = self.stack
        top = stack[-1]
        if top in INTEGRATION and not (top in MATH_TEXT and name in ("mglyph", "malignmark")):
            return False
        if top == "=annotation-xml" and name == "svg":
            return False
        if name in LEAVES_FOREIGN or (name == "font" and _leaves(attributes)):
            at = len(stack)
            while at and stack[at - 1][0] in ":=" and stack[at - 1] not in INTEGRATION:
                at -= 1
            self._cut(at)
            return False
        self.elements += 1
        if not attributes.endswith("/"):
            self.elements -= 1
            if name == "annotation-xml" and ("text/html" in attributes.lower() or "xhtml" in attributes.lower()):
                name = "annotation-html"
            self._push(top[0] + name)
        return True

    def _foreign_end(self, name: str) -> bool:
        """Whether it closed an element of foreign content; else it is read as HTML."""
        stack = self.stack
        if name in ("p", "br"):
            at = len(stack)
            while at and stack[at - 1][0] in ":=" and stack[at - 1] not in INTEGRATION:
                at -= 1
            self._cut(at)
            return False
        if name in ("svg", "math"):
            for at in range(len(stack) - 1, -1, -1):
                if stack[at][0] not in ":=":
                    return False
                if stack[at][1:] == name:
                    self._cut(at)
                    return True
            return False
        top = stack[-1][1:]
        if top == name or (top == "annotation-html" and name == "annotation-xml"):
            self._cut(len(stack) - 1)
            return True
        # the parser in use closes over others now and then only: such an end is not believed
        doubt = any(n[1:] == name for n in stack if n[0] in ":=")
        self._doubt = self._doubt or doubt
        return doubt


def _leaves(attributes: str) -> bool:
    lower = attributes.lower()
    return any(name in lower for name in ("color", "face", "size"))
