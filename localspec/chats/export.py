"""A conversation as Markdown, for people."""

from __future__ import annotations

from localspec.chats.conversation import Conversation, Turn


def as_markdown(chat: Conversation) -> str:
    """The whole conversation; thinking folded away, the figures of each answer below it."""
    parts = [f"# {chat.shown_title}"]
    facts = [fact for fact in (chat.model, chat.saved[:10]) if fact]
    if facts:
        parts.append(f"*{' · '.join(facts)}*")
    if chat.system:
        quoted = "\n".join(f"> {line}" for line in chat.system.splitlines())
        parts.append(f"**System**\n\n{quoted}")
    parts += [_turn(turn) for turn in chat.turns]
    return "\n\n".join(parts) + "\n"


def figures_line(figures: dict[str, object]) -> str:
    """`212 tokens · 47.2 tok/s · auto · 71 % accepted`; what is unknown is left out."""
    words = []
    tokens, rate = figures.get("tokens"), figures.get("rate")
    if isinstance(tokens, int):
        words.append(f"{tokens:,} tokens" if tokens != 1 else "1 token")
    if isinstance(rate, int | float) and rate:
        words.append(f"{rate:.1f} tok/s")
    if method := figures.get("method"):
        words.append(str(method))
    acceptance, per_round = figures.get("acceptance"), figures.get("tokens_per_round")
    if isinstance(acceptance, int | float) and figures.get("drafted"):
        words.append(f"{acceptance * 100:.0f} % accepted")
    if isinstance(per_round, int | float) and figures.get("drafted"):
        words.append(f"{per_round:.1f} per round")
    finish = figures.get("finish")
    told = {
        "cancelled": "stopped",
        "length": "cut at the limit",
        "context": "context is full",
        "failed": "broken off",
    }
    if isinstance(finish, str) and finish in told:
        words.append(told[finish])
    return " · ".join(words)


def _turn(turn: Turn) -> str:
    name = "You" if turn.role == "user" else "Answer"
    parts = [f"## {name}"]
    if turn.thinking.strip():
        parts.append(
            f"<details><summary>Thinking</summary>\n\n{turn.thinking.strip()}\n\n</details>"
        )
    parts.append(turn.content.strip())
    if line := figures_line(turn.figures):
        parts.append(f"*{line}*")
    return "\n\n".join(parts)
