"""Two themes with one accent, and the same colours for what is drawn line by line."""

from __future__ import annotations

from dataclasses import dataclass

from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Look:
    """Colours as `#rrggbb`, for text that widgets draw themselves."""

    dark: bool
    text: str
    muted: str
    """Secondary words: labels, units."""
    faint: str
    """Rules, empty parts of bars."""
    accent: str
    background: str
    surface: str
    """A panel's ground."""
    code: str
    """Ground of code blocks."""
    drafted: str
    """Ground of text that a drafter proposed."""
    selected: str
    good: str
    warn: str
    bad: str
    keyword: str
    string: str
    number: str
    name: str
    """Functions and classes in code."""
    target: str
    """The target's part of a memory bar, then the draft's, the KV cache's, and compute's."""
    draft: str
    kv: str
    compute: str


DARK = Look(
    dark=True,
    text="#d7dde2",
    muted="#8b98a3",
    faint="#3a444d",
    accent="#5cc8b4",
    background="#11161a",
    surface="#161c21",
    code="#1a2127",
    drafted="#1c3a38",
    selected="#22353a",
    good="#8ccf7e",
    warn="#e5b567",
    bad="#ee7f74",
    keyword="#c099e0",
    string="#9fc88a",
    number="#e0a974",
    name="#7fb7e6",
    target="#5cc8b4",
    draft="#7fb7e6",
    kv="#e0a974",
    compute="#a58fc4",
)

LIGHT = Look(
    dark=False,
    text="#20282d",
    muted="#66727b",
    faint="#cfd6da",
    accent="#0b7a6b",
    background="#fbfbf9",
    surface="#f4f5f2",
    code="#eef0ec",
    drafted="#d3ece6",
    selected="#dcebe7",
    good="#2f7d32",
    warn="#946000",
    bad="#b3362b",
    keyword="#7b3fa0",
    string="#3c7a2a",
    number="#a4560f",
    name="#1f5fa8",
    target="#0b7a6b",
    draft="#1f5fa8",
    kv="#b5651d",
    compute="#7b5aa6",
)

DARK_NAME = "localspec-dark"
LIGHT_NAME = "localspec-light"


def themes() -> tuple[Theme, Theme]:
    """Dark first."""
    return _theme(DARK_NAME, DARK), _theme(LIGHT_NAME, LIGHT)


def look_for(theme: Theme) -> Look:
    """The colours that go with a theme; one of Textual's own gets those of its brightness."""
    return DARK if theme.dark else LIGHT


def _theme(name: str, look: Look) -> Theme:
    return Theme(
        name=name,
        primary=look.accent,
        secondary=look.draft,
        accent=look.accent,
        warning=look.warn,
        error=look.bad,
        success=look.good,
        foreground=look.text,
        background=look.background,
        surface=look.surface,
        panel=look.code,
        dark=look.dark,
        variables={
            "muted": look.muted,
            "faint": look.faint,
            "selected": look.selected,
            "border": look.faint,
            "border-blurred": look.faint,
            "footer-background": look.surface,
            "footer-key-foreground": look.accent,
            "footer-description-foreground": look.muted,
            "block-cursor-background": look.selected,
            "block-cursor-foreground": look.text,
            "block-cursor-text-style": "none",
            "block-cursor-blurred-background": look.selected,
            "block-cursor-blurred-foreground": look.text,
            "block-hover-background": look.code,
            "scrollbar": look.faint,
            "scrollbar-hover": look.muted,
            "scrollbar-active": look.accent,
            "scrollbar-background": look.background,
            "scrollbar-background-hover": look.background,
            "scrollbar-background-active": look.background,
            "scrollbar-corner-color": look.background,
            "input-cursor-background": look.accent,
            "input-cursor-foreground": look.background,
            "input-selection-background": f"{look.accent} 30%",
        },
    )
