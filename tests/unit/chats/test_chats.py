"""Saved conversations: whole files, round trips, search, and files of other hands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chats.conversation import Conversation, Turn, conversation_from
from localspec.chats.export import as_markdown, figures_line
from localspec.chats.store import ChatStore
from localspec.errors import LocalspecError, UsageError

TEXT = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "drafted", "figures", "model", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    chat = store.new("smollm2-135m", "Be brief")
    chat.turns += [
        Turn("user", "Why?"),
        Turn("assistant", "Because.", "hm", ((0, 3), (5, 8)), {"rate": 47.2, "tokens": 12}),
    ]
    store.save(chat)
    assert store.load(chat.id) == chat


@given(JSON)
def test_any_json_is_a_conversation_or_none(data: object) -> None:
    found = conversation_from(data, "x")
    assert found is None or isinstance(found, Conversation)


def test_a_file_of_the_command_line_s_save_can_be_resumed(tmp_path: Path) -> None:
    document = {
        "model": "m",
        "saved": "2026-05-02T10:00:00+00:00",
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "So.", "thinking": "hm"},
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")
    chat = ChatStore(tmp_path).load("a")
    assert chat.system == "Be brief"
    assert [turn.content for turn in chat.turns] == ["Why?", "So."]


def test_the_list_is_newest_first_and_leaves_out_what_is_no_conversation(tmp_path: Path) -> None:
    import os

    store = ChatStore(tmp_path)
    for number, words in enumerate(("old", "new")):
        chat = store.new()
        chat.id = words
        chat.turns.append(Turn("user", f"the {words} question"))
        os.utime(store.save(chat), (number + 1, number + 1))
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text("[1]", encoding="utf-8")
    assert [entry.id for entry in store.entries()] == ["new", "old"]


def test_search_wants_every_word_anywhere_in_the_conversation(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    chat = store.new()
    chat.turns += [Turn("user", "About trees"), Turn("assistant", "Red and black ones")]
    store.save(chat)
    assert store.entries("BLACK trees")
    assert "Red and black" in store.entries("black")[0].excerpt
    assert not store.entries("black clouds")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "x\0y"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        ChatStore(tmp_path / "chats").load(name)


def test_two_conversations_of_one_second_have_two_files(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    ids = []
    for _ in range(3):
        chat = store.new()
        store.save(chat)
        ids.append(chat.id)
    assert len(set(ids)) == 3


def test_two_programs_that_begin_in_the_same_second_lose_nothing(tmp_path: Path) -> None:
    first, second = ChatStore(tmp_path), ChatStore(tmp_path)
    chats = [first.new(), second.new()]
    # The clock may have moved on between the two.
    chats[1].id = chats[0].id
    second._unsaved.add(chats[0].id)
    for number, (store, chat) in enumerate(zip((first, second), chats, strict=True)):
        chat.turns.append(Turn("user", f"question {number}"))
        store.save(chat)
        store.save(chat)
    assert chats[0].id != chats[1].id
    assert sorted(entry.title for entry in first.entries()) == ["question 0", "question 1"]


def test_a_disk_that_refuses_is_one_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x", encoding="utf-8")
    store = ChatStore(blocked)
    with pytest.raises(LocalspecError, match="cannot be written"):
        store.save(store.new())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_markdown_has_every_turn_with_its_figures_and_thinking_folded() -> None:
    chat = Conversation("x", "pair", "Be brief")
    chat.turns += [
        Turn("user", "Why?"),
        Turn("assistant", "So.", "long thought", (), {"tokens": 3, "rate": 20.0, "method": "auto"}),
    ]
    text = as_markdown(chat)
    assert text.index("Why?") < text.index("long thought") < text.index("So.")
    assert "<details>" in text
    assert "3 tokens · 20.0 tok/s · auto" in text
    assert "> Be brief" in text


def test_figures_leave_out_what_is_unknown_and_tell_why_it_ended() -> None:
    assert figures_line({}) == ""
    assert figures_line({"finish": "stop"}) == ""
    assert figures_line({"tokens": 1, "finish": "cancelled"}) == "1 token · stopped"
    assert "accepted" not in figures_line({"acceptance": 0.5, "drafted": 0})
