"""Every key of the chat, on a fake engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from localspec.chats.conversation import Turn
from localspec.errors import EngineCrashed, EngineError
from localspec.tui.theme import DARK
from localspec.tui.widgets.chat_list import ChatList
from localspec.tui.widgets.entries import Thought
from localspec.tui.widgets.prompt_input import PromptInput
from localspec.tui.widgets.settings_panel import SettingsPanel
from localspec.tui.widgets.speculation_panel import SpeculationPanel
from localspec.tui.widgets.transcript import Transcript
from tests.support.fake_backend import THOUGHT, FakeBackend
from tests.tui.driving import (
    PAIR,
    activity,
    ask,
    chatting,
    count,
    is_idle,
    last,
    running,
    screen_text,
    session_of,
    transcript_text,
    until,
    write,
)


async def test_enter_sends_and_the_answer_is_shown_as_markdown(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "a tree please")
        shown = transcript_text(pilot)
        assert "a tree please" in shown
        assert "class Node:" in shown
        assert "```" not in shown
        assert "47.2 tok/s" in shown


async def test_an_answer_is_the_text_that_the_engine_said(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        assert session_of(pilot).turns[-1].content == backend.script.text


async def test_escape_stops_the_answer_and_keeps_what_was_said(backend: FakeBackend) -> None:
    backend.script.hold = asyncio.Event()
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "compact" in transcript_text(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: is_idle(pilot))
        turn = session_of(pilot).turns[-1]
        assert turn.figures["finish"] == "cancelled"
        assert backend.script.text.startswith(turn.content)
        assert "stopped" in transcript_text(pilot)


async def test_the_line_grows_with_alt_enter_and_ctrl_j(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await write(pilot, "one", then="ctrl+j")
        await write(pilot, "two", then="alt+enter")
        await write(pilot, "three")
        assert pilot.app.screen.query_one(PromptInput).text == "one\ntwo\nthree"
        assert count(backend, "answer") == 0


async def test_up_and_down_leaf_through_what_was_sent(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "first")
        await ask(pilot, backend, "second")
        prompt = pilot.app.screen.query_one(PromptInput)
        await write(pilot, "draft", then="up")
        assert prompt.text == "second"
        await pilot.press("up")
        assert prompt.text == "first"
        await pilot.press("up")
        assert prompt.text == "first"
        await pilot.press("down", "down")
        assert prompt.text == "draft"


async def test_ctrl_r_answers_the_same_question_again(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        backend.script.text = "Another answer."
        await pilot.press("ctrl+r")
        await until(pilot, lambda: is_idle(pilot) and count(backend, "answer") == 2)
        assert [turn.content for turn in session_of(pilot).turns] == ["hi", "Another answer."]
        assert "class Node" not in transcript_text(pilot)


async def test_ctrl_e_brings_the_question_back_and_replaces_what_followed(
    backend: FakeBackend,
) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        await pilot.press("ctrl+e")
        assert pilot.app.screen.query_one(PromptInput).text == "hi"
        assert session_of(pilot).turns == []
        await ask(pilot, backend, " there")
        turns, _, _ = last(backend, "answer")
        assert [turn.content for turn in turns] == ["hi there"]


async def test_ctrl_s_switches_the_drafter_and_both_are_compared(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        await pilot.press("ctrl+s", "ctrl+r")
        await until(pilot, lambda: is_idle(pilot) and count(backend, "answer") == 2)
        assert last(backend, "answer")[2] == "none"
        await until(pilot, lambda: "compared" in screen_text(pilot))
        assert "24.6 tok/s" in screen_text(pilot)
        await pilot.press("ctrl+s")
        assert session_of(pilot).method == "ngram"
        await pilot.press("ctrl+s")
        assert session_of(pilot).method == "model"
        await pilot.press("ctrl+s")
        assert session_of(pilot).method == "auto"


async def test_without_a_draft_model_the_switch_passes_it_over(backend: FakeBackend) -> None:
    async with chatting(backend, model="smollm2-135m") as pilot:
        seen = []
        for _ in range(4):
            await pilot.press("ctrl+s")
            seen.append(session_of(pilot).method)
        assert seen == ["none", "ngram", "auto", "none"]


async def test_ctrl_t_takes_the_tint_of_drafted_text_away_and_back(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        transcript = pilot.app.screen.query_one(Transcript)
        assert _tinted(transcript) > 50
        await pilot.press("ctrl+t")
        assert _tinted(transcript) == 0
        await pilot.press("ctrl+t")
        assert _tinted(transcript) > 50


async def test_the_colour_of_drafted_text_is_named_while_there_is_any(
    backend: FakeBackend,
) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        assert "drafted text is tinted" in transcript_text(pilot)
        await pilot.press("ctrl+t")
        assert "drafted text is tinted" not in transcript_text(pilot)
        await pilot.press("ctrl+t", "ctrl+s", "ctrl+r")
        await until(pilot, lambda: count(backend, "answer") == 2 and is_idle(pilot))
        assert session_of(pilot).method == "none"
        assert "drafted text is tinted" not in transcript_text(pilot)


async def test_ctrl_n_begins_anew_and_the_old_conversation_is_kept(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "old question")
        await until(pilot, lambda: backend.chats.entries())
        await pilot.press("ctrl+n")
        assert transcript_text(pilot).strip() == ""
        assert [entry.title for entry in backend.chats.entries()] == ["old question"]


async def test_conversations_are_listed_searched_resumed_and_deleted(backend: FakeBackend) -> None:
    for words in ("about trees", "about clouds"):
        chat = backend.chats.new()
        chat.id = words
        chat.turns.extend([_user(words), _answer(f"An answer {words}.")])
        backend.chats.save(chat)
    async with chatting(backend) as pilot:
        await pilot.press("ctrl+l")
        chats = pilot.app.screen.query_one(ChatList)
        await until(pilot, lambda: "about clouds" in screen_text(pilot))
        await write(pilot, "trees")
        await until(pilot, lambda: "about clouds" not in screen_text(pilot))
        await pilot.press("enter")
        assert not chats.display
        assert "An answer about trees." in transcript_text(pilot)
        await ask(pilot, backend, "go on")
        assert len(last(backend, "answer")[0]) == 3
        await pilot.press("ctrl+l")
        field = pilot.app.screen.query_one("#chat-search", Input)
        field.value = "clouds"
        await until(pilot, lambda: "about trees" not in screen_text(pilot))
        await pilot.press("tab", "delete")
        assert len(backend.chats.entries()) == 2
        await pilot.press("delete")
        await until(pilot, lambda: len(backend.chats.entries()) == 1)
        await pilot.press("escape")
        assert not chats.display


async def test_f2_opens_settings_that_the_next_answer_uses(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await pilot.press("f2")
        assert pilot.app.screen.query_one(SettingsPanel).display
        await write(pilot, "Be brief")
        pilot.app.screen.query_one("#set-temp", Input).value = "0"
        pilot.app.screen.query_one("#set-seed", Input).value = "7"
        await pilot.pause()
        await pilot.press("f2")
        await ask(pilot, backend, "hi")
        settings = last(backend, "answer")[1]
        assert (settings.system, settings.temp, settings.seed) == ("Be brief", 0.0, 7)


@pytest.mark.parametrize(("value", "told"), [("x", "not a number"), ("-1", "between 0 and 100")])
async def test_a_wrong_setting_is_explained_beside_it_and_not_used(
    backend: FakeBackend, value: str, told: str
) -> None:
    async with chatting(backend) as pilot:
        await pilot.press("f2")
        pilot.app.screen.query_one("#set-temp", Input).value = value
        await until(pilot, lambda: told in screen_text(pilot))
        assert session_of(pilot).settings.temp == 0.8


async def test_a_text_file_goes_with_the_next_message(backend: FakeBackend, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("remember the milk\n", encoding="utf-8")
    async with chatting(backend) as pilot:
        await pilot.press("ctrl+o")
        field = pilot.app.screen.query_one("#attach", Input)
        field.value = str(tmp_path / "missing.txt")
        await pilot.press("enter")
        assert "cannot be read" in activity(pilot)
        field.value = str(note)
        await pilot.press("enter")
        assert "note.txt" in activity(pilot)
        await ask(pilot, backend, "what")
        assert "remember the milk" in last(backend, "answer")[0][-1].content
        await ask(pilot, backend, "and now")
        assert "remember the milk" not in last(backend, "answer")[0][-1].content


async def test_thinking_is_folded_and_opens_with_ctrl_k_or_a_click(backend: FakeBackend) -> None:
    backend.script.thinking = THOUGHT
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "hi")
        assert "▸ thought" in transcript_text(pilot)
        assert "recursive insert" not in transcript_text(pilot)
        await pilot.press("ctrl+k")
        assert "recursive insert" in transcript_text(pilot)
        await pilot.press("ctrl+k")
        assert "recursive insert" not in transcript_text(pilot)
        transcript = pilot.app.screen.query_one(Transcript)
        transcript.scroll_home(animate=False, immediate=True, force=True)
        await pilot.pause()
        place = next(i for i, e in enumerate(transcript.entries) if isinstance(e, Thought))
        line = sum(len(strips) for strips in transcript.lines()[:place])
        await pilot.click(Transcript, offset=(5, line))
        assert "recursive insert" in transcript_text(pilot)
        assert session_of(pilot).turns[-1].thinking == THOUGHT


async def test_ctrl_y_copies_the_last_answer(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await pilot.press("ctrl+y")
        assert "no answer" in activity(pilot)
        await ask(pilot, backend, "hi")
        await pilot.press("ctrl+y")
        assert pilot.app.clipboard == backend.script.text


async def test_ctrl_x_exports_the_conversation_as_markdown(
    backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with chatting(backend) as pilot:
        await pilot.press("ctrl+x")
        assert "nothing to export" in activity(pilot)
        await ask(pilot, backend, "hi")
        await pilot.press("ctrl+x")
        written = list(tmp_path.glob("*.md"))
        assert len(written) == 1
        assert backend.script.text.strip() in written[0].read_text(encoding="utf-8")


async def test_ctrl_b_shows_and_hides_the_panel_also_where_it_is_folded(
    backend: FakeBackend,
) -> None:
    async with chatting(backend, size=(80, 24)) as pilot:
        panel = pilot.app.screen.query_one(SpeculationPanel)
        assert not panel.display
        await pilot.press("ctrl+b")
        assert panel.display
        await pilot.press("ctrl+b")
        assert not panel.display


async def test_paging_leaves_the_end_and_new_text_does_not_pull_it_back(
    backend: FakeBackend,
) -> None:
    backend.script.text = "\n\n".join(f"paragraph {n}" for n in range(80))
    backend.script.hold = asyncio.Event()
    async with chatting(backend, size=(100, 30)) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "paragraph 30" in transcript_text(pilot))
        transcript = pilot.app.screen.query_one(Transcript)
        await until(pilot, lambda: transcript.scroll_y == transcript.max_scroll_y > 0)
        await pilot.press("pageup")
        await pilot.pause()
        place = transcript.scroll_y
        assert place < transcript.max_scroll_y
        backend.script.hold.set()
        await until(pilot, lambda: is_idle(pilot))
        assert transcript.scroll_y == place
        await pilot.press("pagedown", "pagedown", "pagedown", "pagedown", "pagedown")
        await until(pilot, lambda: transcript.scroll_y > place)


async def test_what_is_missing_is_pulled_then_loaded_then_asked(backend: FakeBackend) -> None:
    backend.missing_models.add(PAIR)
    async with running(backend, screen="chat", model=PAIR) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "pulling" in activity(pilot))
        assert ("start", PAIR) in backend.downloads.calls
        assert count(backend, "load") == 0
        backend.downloads.advance(PAIR)
        await until(pilot, lambda: session_of(pilot).turns and is_idle(pilot))
        assert last(backend, "load")[0] == PAIR


async def test_a_failed_download_is_told_and_the_message_comes_back(backend: FakeBackend) -> None:
    backend.missing_models.add(PAIR)
    async with running(backend, screen="chat", model=PAIR) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "pulling" in activity(pilot))
        backend.downloads.fail(PAIR, "the Hub does not answer", "r tries again")
        await until(pilot, lambda: "the Hub does not answer" in activity(pilot))
        assert pilot.app.screen.query_one(PromptInput).text == "hi"


async def test_a_load_that_fails_is_told_and_the_next_message_tries_again(
    backend: FakeBackend,
) -> None:
    backend.script.load_error = EngineError("not enough memory", hint="less context")
    async with running(backend, screen="chat", model=PAIR) as pilot:
        await until(pilot, lambda: "not enough memory" in activity(pilot))
        backend.script.load_error = None
        await ask(pilot, backend, "hi")
        assert count(backend, "load") == 2


async def test_a_crash_shows_what_happened_and_ctrl_r_answers_anew(backend: FakeBackend) -> None:
    backend.script.error = EngineCrashed(
        "the engine's process ended unexpectedly", log=["GGML_ASSERT(false) failed"]
    )
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "ended unexpectedly" in transcript_text(pilot))
        assert "GGML_ASSERT" in transcript_text(pilot)
        assert "compact version" in transcript_text(pilot)
        backend.script.error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: count(backend, "answer") == 2 and is_idle(pilot))
        assert "ended unexpectedly" not in transcript_text(pilot)
        assert session_of(pilot).turns[-1].content == backend.script.text


async def test_the_last_session_s_pair_is_named_and_the_first_message_loads_it(
    backend: FakeBackend,
) -> None:
    backend.state["model"] = PAIR
    async with running(backend, screen="chat") as pilot:
        await until(pilot, lambda: "your first message loads it" in activity(pilot))
        assert PAIR in screen_text(pilot)
        assert backend.loaded is None
        await ask(pilot, backend, "hi")
        assert last(backend, "load")[0] == PAIR


async def test_an_answer_that_is_stopped_before_it_begins_leaves_the_question(
    backend: FakeBackend,
) -> None:
    backend.script.text = " "
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "ctrl+r asks again" in activity(pilot))
        assert [turn.role for turn in session_of(pilot).turns] == ["user"]


async def test_a_message_without_a_model_says_where_the_models_are(backend: FakeBackend) -> None:
    async with running(backend, screen="chat") as pilot:
        await write(pilot, "hi", then="enter")
        assert "F3" in activity(pilot)


async def test_a_second_message_waits_until_the_answer_is_over(backend: FakeBackend) -> None:
    backend.script.hold = asyncio.Event()
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "compact" in transcript_text(pilot))
        await write(pilot, "more", then="enter")
        assert "esc stops it" in activity(pilot)
        assert pilot.app.screen.query_one(PromptInput).text == "more"
        backend.script.hold.set()
        await until(pilot, lambda: is_idle(pilot))


def _tinted(transcript: Transcript) -> int:
    """Cells on the ground of drafted text."""
    return sum(
        segment.cell_length
        for strips in transcript.lines()
        for strip in strips
        for segment in strip
        if segment.style is not None
        and segment.style.bgcolor is not None
        and segment.style.bgcolor.name == DARK.drafted
    )


def _user(text: str) -> Turn:
    return Turn("user", text)


def _answer(text: str) -> Turn:
    return Turn("assistant", text)
