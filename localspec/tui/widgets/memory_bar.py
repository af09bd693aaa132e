"""The stacked bar of one device: letters of different density, so that no colour is needed."""

from __future__ import annotations

from rich.text import Text

from localspec.tui.backend.views import FitDevice
from localspec.tui.theme import Look
from localspec.tui.widgets.bars import stacked
from localspec.units import GIB, MIB


def bar_lines(device: FitDevice, look: Look, width: int) -> list[Text]:
    """The bar, its sum, and what each part is; lines of at most `width` where words allow."""
    groups = grouped(device, look)
    scale = max(device.free, device.required)
    cells = stacked([size for _, _, size, _ in groups], scale, width)
    bar = Text()
    for (sign, _, _, colour), count in zip(groups, cells, strict=True):
        bar.append(sign * count, colour)
    limit = round(device.free / scale * width) if scale else width
    if device.headroom >= 0:
        bar.append("·" * max(0, width - sum(cells)), look.faint)
    elif limit < width:
        # What lies beyond the end of the device.
        bar.stylize(f"underline {look.bad}", limit, width)
    if device.headroom >= 0:
        words = f"{device.headroom / GIB:.1f} GiB headroom"
        colour = look.good
    else:
        words = f"{-device.headroom / GIB:.1f} GiB too much"
        colour = look.bad
    sizes = f"{device.required / GIB:.1f} of {device.free / GIB:.1f} GiB"
    if len(sizes) + 5 + 2 + len(words) <= width:
        sizes += " free"
    total = Text.assemble((sizes, look.text), (f"  {words}", f"bold {colour}"))
    lines = [bar, total]
    legend = Text()
    for sign, name, size, colour in groups:
        piece = Text.assemble((f"{sign} ", colour), (f"{name} ", look.muted), short_size(size))
        if legend and legend.cell_len + 3 + piece.cell_len > width:
            lines.append(legend)
            legend = Text()
        legend.append("   " if legend else "")
        legend.append_text(piece)
    return [*lines, legend]


def grouped(device: FitDevice, look: Look) -> list[tuple[str, str, int, str]]:
    """Sign, name, bytes and colour of each part that is there, in the order of the bar."""
    kinds = (
        ("█", "target weights", "target", ("weights",), look.target),
        ("▓", "draft weights", "draft", ("weights",), look.draft),
        ("▒", "KV target", "target", ("kv", "recurrent"), look.kv),
        ("▚", "KV draft", "draft", ("kv", "recurrent"), look.draft),
        ("░", "compute", "", ("compute", "output"), look.compute),
    )
    found = []
    for sign, name, model, names, colour in kinds:
        size = sum(
            part.bytes
            for part in device.parts
            if part.kind in names and (not model or part.model == model)
        )
        if size:
            found.append((sign, name, size, colour))
    if device.overhead:
        found.append(("▪", "backend", device.overhead, look.muted))
    return found


def short_size(size: int) -> str:
    """`18.4 GiB`, or MiB where that says more."""
    return f"{size / GIB:.1f} GiB" if size >= GIB // 2 else f"{size / MIB:.0f} MiB"
