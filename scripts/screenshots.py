"""Make the pictures of the terminal UI in docs/images from the real program on real models.

    python scripts/screenshots.py [FOLDER]

SmolLM2-135M as F32 is the target and its Q4_0 the draft, a real pair made by the tests' own
support code (a 98 MB download the first time). Nothing is staged but the keys and a letter with
three spelling mistakes. Figures are the machine's own: run it while nothing else runs. Takes about
two minutes on two cores.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.tui.backend.views import ChatSettings

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PAIR = "smollm2-f32+q4_0"
QUESTION = "Rewrite this letter without spelling mistakes."
LETTER = """\
Dear Ms. Weber,

thank you for your letter of 12 May. We recieved the three boxes on Monday, and everything in them \
was in good order. The lamps are allready on the shelves in our shop in Leipzig, and the first two \
were sold on the same day.

We would like to order twelve more lamps of the same kind, six in white and six in green. Please \
send them to the same adress as before.

With kind regards,
Anna Lindner
"""
"""Editing is where drafting wins: most of the answer stands in the question."""
CATALOG = """\
[models."smollm2-f32"]
name = "SmolLM2-135M F32"
path = "{target}"
license = "Apache-2.0"

[models."smollm2-q4_0"]
name = "SmolLM2-135M Q4_0"
path = "{draft}"
license = "Apache-2.0"

[pairs."smollm2-f32+q4_0"]
target = "smollm2-f32"
draft = "smollm2-q4_0"
method = "draft"
note = "a pair small enough for any processor"
"""


async def make(folder: Path) -> None:
    from localspec.paths import Paths
    from localspec.tui.app import LocalspecApp
    from localspec.tui.backend.live import LiveBackend
    from tests.support.models import smollm2_f32, smollm2_q4_0

    with tempfile.TemporaryDirectory() as home:
        root = Path(home)
        paths = Paths(root / "config", root / "data", root / "cache")
        paths.config.mkdir(parents=True)
        text = CATALOG.format(target=smollm2_f32(), draft=smollm2_q4_0())
        paths.user_catalog.write_text(text, encoding="utf-8")
        letter = root / "letter.txt"
        letter.write_text(LETTER, encoding="utf-8")
        app = LocalspecApp(LiveBackend(paths), screen="models")
        async with app.run_test(size=(120, 36)) as pilot:

            async def until(is_true: Callable[[], object], seconds: float = 300.0) -> None:
                for _ in range(int(seconds * 10)):
                    if is_true():
                        return
                    await pilot.pause(0.1)
                raise TimeoutError(f"the program does not get on; it shows:\n{_text(app)}")

            async def keep(name: str) -> None:
                await pilot.pause(0.5)
                path = folder / f"{name}.svg"
                path.write_text(app.export_screenshot(title="localspec"), encoding="utf-8")
                print(path)

            async def answered(methods: int) -> None:
                await until(lambda: len(app.session.meter.by_method) == methods)
                await until(lambda: len(app.session.turns) == 2)

            table = app.screen.query_one("#models")
            await until(lambda: table.row_count > 20)  # type: ignore[attr-defined]
            await pilot.press("escape", "ctrl+end")
            await until(lambda: "✓" in _text(app))
            await pilot.press("up", "down")
            await until(lambda: "headroom" in _text(app))
            await keep("models")

            await pilot.press("f")
            await until(lambda: "from llama.cpp itself" in _text(app))
            await keep("fit")

            await pilot.press("l")
            await until(lambda: "/ 8,192" in _text(app))
            app.session.settings = _greedy(app.session.settings)
            # Plain decoding first: it teaches the drafters nothing about the answer.
            for count, method in enumerate(("none", "auto"), 1):
                while app.session.method != method:
                    await pilot.press("ctrl+s")
                if method == "none":
                    await pilot.press("ctrl+o")
                    app.screen.query_one("#attach").value = str(letter)  # type: ignore[attr-defined]
                    await pilot.press("enter")
                    app.screen.query_one("#prompt").put(QUESTION)  # type: ignore[attr-defined]
                    await pilot.press("enter")
                else:
                    await pilot.press("ctrl+r")
                await answered(count)
            await keep("chat")

            await pilot.press("f7")
            await until(lambda: "r runs" in _text(app))
            app.screen.query_one("#bench-prompts").value = "1"  # type: ignore[attr-defined]
            app.screen.query_one("#bench-max_tokens").value = "32"  # type: ignore[attr-defined]
            await pilot.press("r")
            await until(lambda: "On this machine" in _text(app), 600)
            await keep("bench")
            await pilot.press("ctrl+q")


def _text(app: object) -> str:
    strips = app.screen._compositor.render_strips()  # type: ignore[attr-defined]
    return "\n".join(strip.text for strip in strips)


def _greedy(settings: ChatSettings) -> ChatSettings:
    return replace(settings, temp=0.0, max_tokens=160)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(target))
