"""The bar chart as an SVG file for sharing: no fonts, scripts or links from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from localspec.bench.bars import Bar, BarGroup, scale_end
from localspec.bench.tables import times

# Okabe and Ito's palette: told apart by colour-blind readers too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#6B6B6B", "#F0E442")
_INK, _MUTED, _GRID, _PAPER = "#1f2328", "#59636e", "#d8dee4", "#ffffff"

_WIDTH = 860
_LEFT, _RIGHT = 120, 160
_BAR, _GAP, _GROUP_GAP = 14, 3, 14
_TOP = 112
_LINE = 17


def svg_chart(
    groups: Sequence[BarGroup], *, title: str, subtitle: str = "", footer: str = ""
) -> str:
    """An SVG document with one bar for each method of each group, whiskers for the spread over
    prompts, and a line at 1.0×.

    title, subtitle: above the chart. footer: sentences below it, wrapped.
    """
    methods = list(dict.fromkeys(bar.method for group in groups for bar in group.bars))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(methods)}
    end = scale_end(groups)
    parts: list[str] = []
    y: float = _TOP
    for group in groups:
        tall = len(group.bars) * (_BAR + _GAP) - _GAP
        parts.append(_text(_LEFT - 12, y + tall / 2 + 4, group.label, anchor="end", size=13))
        for bar in group.bars:
            parts += _bar(bar, y, end, colours[bar.method])
            y += _BAR + _GAP
        y += _GROUP_GAP - _GAP
    bottom = y - _GROUP_GAP + 6
    grid = _grid(end, bottom)
    notes = _wrap(footer, 122)
    height = bottom + 40 + _LINE * len(notes)
    head = [
        _text(24, 34, title, size=19, weight="600"),
        _text(24, 55, subtitle, size=12, fill=_MUTED),
        *_legend(colours),
    ]
    foot = [
        _text(24, bottom + 40 + _LINE * index, line, size=12, fill=_MUTED)
        for index, line in enumerate(notes)
    ]
    body = "\n".join([*head, *grid, *parts, _one_mark(end, bottom), *foot])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" fill="{_PAPER}"/>\n{body}\n</svg>\n'
    )


def _bar(bar: Bar, y: float, end: float, colour: str) -> list[str]:
    middle = y + _BAR / 2
    low, value, high = (_x(number, end) for number in (bar.low, bar.value, bar.high))
    whisker = (
        f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 3:.1f}v6'
        f'M{high:.1f} {middle - 3:.1f}v6" stroke="{_INK}" stroke-width="1" fill="none"/>'
    )
    return [
        f'<rect x="{_LEFT}" y="{y:.1f}" width="{max(0.0, value - _LEFT):.1f}" height="{_BAR}" '
        f'fill="{colour}" fill-opacity="0.85"><title>{escape(bar.method)} {times(bar.value)}'
        "</title></rect>",
        whisker,
        _text(
            _WIDTH - 24,
            middle + 4,
            f"{times(bar.value)}  ({bar.low:.2f}–{bar.high:.2f})",
            anchor="end",
            size=11,
        ),
    ]


def _grid(end: float, bottom: float) -> list[str]:
    step = 0.5 if end <= 5 else 1.0
    lines = []
    for index in range(int(end / step) + 1):
        value = index * step
        x = _x(value, end)
        lines.append(f'<path d="M{x:.1f} {_TOP - 8}V{bottom:.1f}" stroke="{_GRID}"/>')
        lines.append(_text(x, bottom + 16, f"{value:.1f}×", anchor="middle", size=11, fill=_MUTED))
    return lines


def _one_mark(end: float, bottom: float) -> str:
    x = _x(1.0, end)
    return (
        f'<path d="M{x:.1f} {_TOP - 8}V{bottom:.1f}" stroke="{_INK}" stroke-width="1.5" '
        f'stroke-dasharray="4 3"/>' + _text(x, _TOP - 13, "plain", anchor="middle", size=11)
    )


def _legend(colours: dict[str, str]) -> list[str]:
    parts = []
    x = 24.0
    for name, colour in colours.items():
        parts.append(f'<rect x="{x:.1f}" y="68" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, 78, name, size=12))
        x += 16 + 7.0 * len(name) + 22
    return parts


def _x(value: float, end: float) -> float:
    return _LEFT + min(value, end) / end * (_WIDTH - _LEFT - _RIGHT)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    anchor: str = "start",
    fill: str = _INK,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{fill}" font-weight="{weight}">{escape(text)}</text>'
    )


def _wrap(text: str, columns: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, columns)
