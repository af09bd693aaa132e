"""The /commands of the terminal chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.cli.call import nearest
from localspec.cli.controller_table import controller_lines
from localspec.cli.transcript import DRAFTED_STYLE
from localspec.cli.transcript_file import default_path, save_chat
from localspec.engine.settings import DRAFT_METHODS, ChatMessage
from localspec.errors import UsageError
from localspec.units import percent

if TYPE_CHECKING:
    from localspec.cli.chat import Chat


@dataclass(frozen=True, slots=True)
class ChatCommand:
    usage: str
    help: str
    action: Callable[[Chat, str], Awaitable[None]] | None
    """Gets the rest of the line; None leaves the chat."""


async def run_chat_command(chat: Chat, line: str) -> bool:
    """Do what `line` asks for; False when it ends the chat. Raises UsageError, EngineError."""
    name, _, argument = line.partition(" ")
    action = COMMANDS[name].action
    if action is None:
        return False
    await action(chat, argument.strip())
    return True


async def _help(chat: Chat, argument: str) -> None:
    shown = {command.usage: command.help for command in COMMANDS.values()}
    width = max(map(len, shown))
    for usage, text in shown.items():
        chat.output.note(f"  {usage:<{width}}  {text}")
    chat.output.note("")
    chat.output.note("  Alt-Enter starts a new line; Ctrl-C stops an answer; Ctrl-D leaves")


async def _clear(chat: Chat, argument: str) -> None:
    chat.messages.clear()
    chat.output.note("the conversation is empty again")


async def _stats(chat: Chat, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise UsageError(f"/stats {argument!r} is not known", hint="/stats, /stats on, /stats off")
    if argument:
        chat.stats = argument == "on"
        chat.output.note(f"statistics after each answer: {argument}")
        return
    note, totals = chat.output.note, chat.totals
    if totals.last is None:
        note("no answer yet")
        return
    answers = "1 answer" if totals.answers == 1 else f"{totals.answers} answers"
    note(f"  {answers}, {totals.tokens} tokens, {totals.tokens_per_second:.1f} tok/s")
    drafted = f"{totals.accepted} of {totals.drafted} draft tokens accepted"
    share = (
        f"{drafted} ({percent(totals.acceptance_rate)})" if totals.drafted else "nothing drafted"
    )
    note(f"  {totals.tokens_per_round:.2f} tokens per round; {share}")
    for name, counts in totals.by_drafter.items():
        if counts.drafted:
            rate = counts.accepted / counts.drafted
            note(f"  {name}: {counts.accepted} of {counts.drafted} accepted ({percent(rate)})")
    last = totals.last.speculation
    positions = [
        f"{accepted / drafted:.0%}"
        for accepted, drafted in zip(
            last.accepted_per_position, last.drafted_per_position, strict=False
        )
        if drafted
    ]
    if positions:
        note(f"  last answer, accepted by position: {' '.join(positions)}")
    for text in controller_lines(await chat.engine.explain()):
        note(f"  {text}")


async def _system(chat: Chat, argument: str) -> None:
    if not argument:
        chat.output.note(f"system message: {chat.system or 'none'}")
        return
    chat.system = "" if argument == "none" else argument
    chat.output.note("the system message counts from the next answer on")


async def _draft(chat: Chat, argument: str) -> None:
    if not argument:
        chat.output.note(f"--draft {chat.method}; others: {', '.join(DRAFT_METHODS)}")
        return
    if argument not in DRAFT_METHODS:
        raise UsageError(
            f"/draft {argument!r} is not known",
            hint=nearest(argument, DRAFT_METHODS) + ", ".join(DRAFT_METHODS),
        )
    if argument == "model" and not chat.has_draft:
        raise UsageError(
            "this chat has no draft model",
            hint="start it with one: localspec run MODEL --draft PATH, or OWNER/REPO",
        )
    chat.method = argument
    chat.output.note(f"--draft {argument} from the next answer on")


async def _color(chat: Chat, argument: str) -> None:
    chat.color_drafts = not chat.color_drafts
    if not chat.color_drafts:
        chat.output.note("accepted draft tokens look like all others")
        return
    sample = chat.output.style("like this", DRAFTED_STYLE, error=True)
    chat.output.note(f"accepted draft tokens are shown {sample}")


async def _save(chat: Chat, argument: str) -> None:
    if not chat.messages:
        raise UsageError("there is nothing to save yet", hint="ask something first")
    path = Path(argument).expanduser() if argument else default_path(chat.chats_folder)
    system = [ChatMessage("system", chat.system)] if chat.system else []
    save_chat(path, chat.model, [*system, *chat.messages])
    chat.output.note(f"saved: {path.absolute()}")


COMMANDS = {
    "/help": ChatCommand("/help", "these commands", _help),
    "/clear": ChatCommand("/clear", "forget the conversation", _clear),
    "/stats": ChatCommand("/stats [on|off]", "speed and acceptance so far, or after each", _stats),
    "/system": ChatCommand("/system [TEXT|none]", "show or set the system message", _system),
    "/draft": ChatCommand("/draft [METHOD]", "none, ngram, model or auto", _draft),
    "/color": ChatCommand("/color", "accepted draft tokens in colour, on and off", _color),
    "/save": ChatCommand(
        "/save [FILE]", "save as JSON, or as Markdown where it ends in .md", _save
    ),
    "/quit": ChatCommand("/quit", "leave", None),
    "/exit": ChatCommand("/quit", "leave", None),
}
