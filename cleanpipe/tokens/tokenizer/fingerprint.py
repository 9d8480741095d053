"""What names a tokenizer: its content, its policy, and what it does with a fixed text (there a library shows)."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import first_line, is_failure
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.parts import canonical

_YOUNG = (
    "\u0860\u1c90\u0e86\ua7c2\u08be\u0b55\ua7ca\u0870\u0898\ua7d0\u0cf3\ua7cb\u1c89\u0897\ua7ce\U0001e030\U0001133b"
    "\U00010d00\U00010f30\U0001e100\U0001e2c0\U00011900\U00010fb0\U00018b00\U00030000\U00010570\U0001df00\U0001e290"
    "\U0001e4d0\U00011f02\U00031350\U0002ebf0\U000105c0\U00010d4a\U00010d40\U00011380\U00016d40\U0001ccf0\U0001e6c0"
    "\U00011db0\U00016ea0"
)
PROBE = (
    "The quick brown fox, they're 'RE 'll IT'S  3.14159 1234567 ½ ² Ⅷ\n"
    "\n\tdef f(x):\r\n        return {'a': x**2}  # ok\r\n"
    "Größe naïve Ελληνικά русский язык עברית العَرَبِيَّة हिन्दी বাংলা ไทยภาษา 中文，日本語のテスト。 한국어 ქართული አማርኛ தமிழ் "
    "e\u0301 a\u0308\u0323 \u0301 \u200d\u200c\ufeff\u00a0\u2003\u3000\u0085\u2028 ﬁ ſ K İı ß ǅ ʰ ‿ ⁀ "
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽 𝔘𝔫𝔦 𐍈 \U0001fadf \u0378 \U000e0041 aaaaaaaaaaaaaaaa      \t\t \n\n\n end "
    "<|endoftext|> </s> <s> <unk> <pad> [INST] <|im_end|> <|begin_of_text|> [CLS] <0x41> ▁a ##b <tool_call>\x00\x1c\x7f"
    # letters, marks and numbers of Unicode 10 to 17: a library that takes them for others ends its pieces elsewhere
    + "".join(f" x{letter}'s {letter}{letter}1'll 7{letter}!" for letter in _YOUNG)
)


def fingerprint(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer with its fingerprint, after proof that it adds nothing to a text by itself.

    Raises:
        ConfigError: it fails, or puts ids into the empty text, or control ids into text.
    """
    from cleanpipe.tokens.backends import reference

    controls = {str(name): value for name, value in tokenizer.controls.items()}
    backend = reference(tokenizer)
    try:
        encoded = backend.encode(["", PROBE])
    except BaseException as error:
        if not is_failure(error):
            raise
        raise ConfigError(f"{tokenizer.name} cannot encode: {first_line(error)}; export it again") from error
    if encoded.ends[0]:
        raise ConfigError(
            f"{tokenizer.name} adds tokens itself: the empty text becomes {encoded.ids[: encoded.ends[0]].tolist()}; "
            "give one without prefix or suffix tokens"
        )
    forged = sorted({*encoded.ids.tolist()} & {value for value in controls.values() if value != tokenizer.unk})
    if forged:
        raise ConfigError(
            f"{tokenizer.name} makes control ids {forged[:5]} out of ordinary text; give a tokenizer whose "
            "special tokens are marked as special"
        )
    if encoded.ids.size and int(encoded.ids.max()) >= tokenizer.vocabulary:
        raise ConfigError(
            f"{tokenizer.name} gives ids beyond its vocabulary of {tokenizer.vocabulary}; export it again"
        )
    content = tokenizer.parts.content
    policy = canonical(
        {"bos": tokenizer.bos, "eos": tokenizer.eos, "controls": controls, "strip": True, "special": "text"}
    )
    probe = hashlib.sha256(encoded.ids.astype("<u4").tobytes()).hexdigest()
    digest = canonical({"content": content, "policy": policy, "probe": probe})
    return replace(tokenizer, fingerprint={"content": content, "policy": policy, "probe": probe, "digest": digest})
