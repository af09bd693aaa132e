"""Code in colours: Pygments tells the kinds of token, the look their colours."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rich.text import Text

from localspec.tui.theme import Look

_COMMON = ("python", "json", "bash", "javascript", "html", "c", "cpp", "rust", "sql", "yaml")


def highlighted(source: str, language: str, look: Look) -> Text:
    """`source` with a colour for each kind of token; plain when the language is unknown."""
    lexer = _lexer(language.lower())
    text = Text(style=look.text, no_wrap=True)
    if lexer is None:
        text.append(source)
        return text
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    colours = (
        (Comment, f"italic {look.muted}"),
        (Keyword, look.keyword),
        (String, look.string),
        (Number, look.number),
        (Name.Function, look.name),
        (Name.Class, look.name),
        (Name.Decorator, look.name),
        (Name.Builtin, look.name),
        (Name.Tag, look.name),
        (Operator.Word, look.keyword),
    )
    for kind, value in lexer.get_tokens(source):
        text.append(value, next((colour for known, colour in colours if kind in known), ""))
    return text


def load_common_lexers() -> None:
    """Make the lexers of the usual languages now: each takes tens of milliseconds once."""
    for language in _COMMON:
        _lexer(language)


@lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
