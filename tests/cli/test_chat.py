"""The terminal chat: commands, history, interruption, and errors that do not end it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from localspec.chats.store import ChatStore
from localspec.cli.chat import Chat
from localspec.cli.chat_commands import COMMANDS
from localspec.cli.chat_input import terminal_reader
from localspec.cli.chat_loop import converse
from localspec.cli.output import Output
from localspec.cli.transcript_file import load_chat
from localspec.engine.settings import (
    ChatMessage,
    EngineSettings,
    GenerateRequest,
    ModelSettings,
)
from localspec.errors import EngineCrashed
from tests.support.fake_engine import TEXT, FakeEngine

ANSWER = ChatMessage("assistant", TEXT, "Let me see.")


@dataclass
class Session:
    """A chat that was held to its end."""

    chat: Chat
    engine: FakeEngine
    out: str
    err: str


Typed = str | type[BaseException] | Callable[[Chat], Awaitable[None]]


async def hold(tmp_path: Path, *typed: Typed, **options: Any) -> Session:
    """Type these lines; an exception class is raised, a coroutine function awaited first."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(stdout=out, stderr=err, stdin=io.StringIO(), **options.pop("output", {}))
    waiting = list(typed)

    async def read_line() -> str:
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, str):
                return item
            if isinstance(item, type):
                raise item
            await item(chat)
        raise EOFError

    engine = FakeEngine(EngineSettings(ModelSettings(tmp_path / "m.gguf"), "tiny"))
    chat = Chat(
        cast(Any, engine),
        GenerateRequest(max_tokens=50),
        output,
        model="tiny",
        method="auto",
        chats_folder=tmp_path / "chats",
        **{"stats": False, **options},
    )
    await converse(chat, read_line)
    return Session(chat, engine, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def plain_engine() -> None:
    FakeEngine.reset()


async def test_each_answer_sees_the_conversation_before_it(tmp_path: Path) -> None:
    session = await hold(tmp_path, "first", "second", system="Be brief.")
    system, first = ChatMessage("system", "Be brief."), ChatMessage("user", "first")
    assert [request.messages for request in session.engine.requests] == [
        (system, first),
        (system, first, ANSWER, ChatMessage("user", "second")),
    ]
    assert session.out == f"{TEXT}\n{TEXT}\n"
    assert session.engine.requests[0].max_tokens == 50


async def test_blank_lines_and_ctrl_c_at_the_prompt_ask_nothing(tmp_path: Path) -> None:
    session = await hold(tmp_path, "", "   ", KeyboardInterrupt, "hello")
    assert len(session.engine.requests) == 1
    assert "Ctrl-D or /quit ends the chat" in session.err


async def test_clear_forgets_and_system_and_draft_count_from_then_on(tmp_path: Path) -> None:
    session = await hold(tmp_path, "one", "/clear", "/system Talk.", "/draft ngram", "two")
    request = session.engine.requests[1]
    assert request.messages == (ChatMessage("system", "Talk."), ChatMessage("user", "two"))
    assert (session.engine.requests[0].method, request.method) == ("auto", "ngram")


async def test_system_none_removes_the_system_message(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/system none", "hi", "/system", system="Be brief.")
    assert session.engine.requests[0].messages == (ChatMessage("user", "hi"),)
    assert "system message: none" in session.err


async def test_color_shows_accepted_draft_tokens(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/color", "hi", "/color", "hi", output={"color": True})
    assert session.out == f"The sky \x1b[32mis blue.\x1b[0m\n{TEXT}\n"


async def test_stats_add_up_and_tell_what_the_controller_thinks(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/stats", "a", "b", "/stats")
    lines = [line.strip() for line in session.err.splitlines()]
    assert lines == [
        "no answer yet",
        "2 answers, 8 tokens, 6.0 tok/s",
        "2.00 tokens per round; 4 of 8 draft tokens accepted (50%)",
        "ngram: 2 of 6 accepted (33%)",
        "model: 2 of 2 accepted (100%)",
        "last answer, accepted by position: 50% 50%",
        "auto chose  rounds  tokens expected  came  gain expected   came",
        "ngram           12             3.50  3.25          2.00x  1.75x",
        "plain            4             1.00  1.00          1.00x  1.00x",
        "now 35.0 tok/s; plain decoding would give 20.0",
        "a pass over tokens     1     2     3     4     5",
        "takes ms            50.0  55.0  60.0  65.0  70.0",
    ]


async def test_stats_can_follow_every_answer(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/stats on", "a", "/stats off", "b")
    assert session.err.count("tok/s") == 1


@pytest.mark.parametrize("name", ["", "talk.json", "talk.md"])
async def test_save(name: str, tmp_path: Path) -> None:
    target = str(tmp_path / name) if name else ""
    await hold(tmp_path, "hi", f"/save {target}".strip(), system="Be brief.")
    if name.endswith(".md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith("# hi\n\n*tiny · ")
        assert "> Be brief.\n" in text
        assert "## You\n\nhi\n" in text
        return
    (path,) = [tmp_path / name] if name else list((tmp_path / "chats").iterdir())
    assert json.loads(path.read_text(encoding="utf-8"))["model"] == "tiny"
    assert load_chat(path) == [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "hi"),
        ANSWER,
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/save", "error: there is nothing to save yet"),
        ("/draft modle", "error: /draft 'modle' is not known"),
        ("/sytem x", "warning: there is no /sytem"),
    ],
)
async def test_wrong_commands_are_told_and_the_chat_goes_on(
    line: str, message: str, tmp_path: Path
) -> None:
    session = await hold(tmp_path, line, "hi")
    assert message in session.err.splitlines()
    assert len(session.engine.requests) == 1


async def test_a_path_that_begins_with_a_slash_is_a_question(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/etc/hosts: what is that?")
    assert len(session.engine.requests) == 1


@pytest.mark.parametrize("line", ["/quit", "/exit"])
async def test_quit_ends_the_chat(line: str, tmp_path: Path) -> None:
    session = await hold(tmp_path, line, "never asked")
    assert session.engine.requests == []


async def test_help_names_every_command(tmp_path: Path) -> None:
    session = await hold(tmp_path, "/help")
    for name in ("/help", "/clear", "/stats", "/system", "/draft", "/color", "/save", "/quit"):
        assert name in session.err


async def test_a_failed_answer_leaves_the_conversation_as_it_was(tmp_path: Path) -> None:
    FakeEngine.fails_with = EngineCrashed("the engine ended with SIGKILL")
    session = await hold(tmp_path, "fails", "works")
    assert "error: the engine ended with SIGKILL" in session.err
    assert session.chat.messages == [ChatMessage("user", "works"), ANSWER]


async def test_ctrl_c_stops_the_answer_and_keeps_the_chat(tmp_path: Path) -> None:
    async def interrupt_once_it_runs(chat: Chat) -> None:
        FakeEngine.waits_for_cancel = True
        engine = cast(Any, chat.engine)

        async def press() -> None:
            await engine.waiting.wait()
            FakeEngine.waits_for_cancel = False
            os.kill(os.getpid(), signal.SIGINT)

        pressed.append(asyncio.create_task(press()))

    pressed: list[asyncio.Task[None]] = []
    before = signal.getsignal(signal.SIGINT)
    session = await hold(tmp_path, interrupt_once_it_runs, "long", "next")
    assert signal.getsignal(signal.SIGINT) is before
    assert session.out == f"The sky \n{TEXT}\n"
    assert session.chat.messages == [
        ChatMessage("user", "long"),
        ChatMessage("assistant", "The sky ", "Let me see."),
        ChatMessage("user", "next"),
        ANSWER,
    ]


async def typed_into_terminal(keys: str, history: Path) -> str:
    with create_pipe_input() as pipe:
        read = terminal_reader(history, input=pipe, output=DummyOutput())
        pipe.send_text(keys)
        return await read()


async def test_enter_sends_and_alt_enter_starts_a_line(tmp_path: Path) -> None:
    history = tmp_path / "deep" / "history.txt"
    assert await typed_into_terminal("one\x1b\rtwo\r", history) == "one\ntwo"
    assert "one" in history.read_text(encoding="utf-8")


async def test_enter_typed_ahead_of_the_prompt_sends_too(tmp_path: Path) -> None:
    # A terminal in its ordinary mode turns the Enter key into a line feed.
    assert await typed_into_terminal("one\n", tmp_path / "h") == "one"


async def test_former_inputs_come_back_with_the_up_key(tmp_path: Path) -> None:
    history = tmp_path / "history.txt"
    await typed_into_terminal("remember me\r", history)
    assert await typed_into_terminal("\x1b[A\r", history) == "remember me"


async def test_ctrl_d_and_ctrl_c_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(EOFError):
        await typed_into_terminal("\x04", tmp_path / "h")
    with pytest.raises(KeyboardInterrupt):
        await typed_into_terminal("half a line\x03", tmp_path / "h")


def test_every_command_has_a_help_line() -> None:
    assert all(command.help for command in COMMANDS.values())


async def test_a_saved_chat_can_be_opened_in_the_ui(tmp_path: Path) -> None:
    await hold(tmp_path, "hi", "/save", system="Be brief.")
    (entry,) = ChatStore(tmp_path / "chats").entries()
    assert (entry.title, entry.model, entry.turns) == ("hi", "tiny", 2)
    assert ChatStore(tmp_path / "chats").load(entry.id).system == "Be brief."


async def test_save_makes_no_folder_and_says_where_the_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = await hold(
        tmp_path, "hi", f"/save {tmp_path / 'no' / 'talk.md'}", f"/save {tmp_path}", "/save a.md"
    )
    assert f"error: there is no folder {tmp_path / 'no'}\nhint: " in session.err
    assert f"error: {tmp_path} is a folder\nhint: " in session.err
    assert f"saved: {tmp_path / 'a.md'}\n" in session.err
    assert not (tmp_path / "no").exists()
