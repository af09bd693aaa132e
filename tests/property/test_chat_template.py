"""Laws of chat templates: whatever the source, text or one TemplateError comes out."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.engine.chat_template import CHATML, ChatTemplate, merge_system
from localspec.engine.settings import ChatMessage
from localspec.errors import TemplateError

FRAGMENTS = (
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if m.role == 'user' %}",
    "{% else %}",
    "{% endif %}",
    "{{ m.content }}",
    "{{ messages[0]['content'] | trim }}",
    "{% set ns = namespace(x='ab') %}",
    "{% set ns.x = ns.x ~ ns.x ~ ns.x %}",
    "{{ ns.x * 9 }}",
    "{% macro f(a) %}",
    "{% endmacro %}",
    "{{ f(f(1)) }}",
    "{% break %}",
    "{% generation %}",
    "{% endgeneration %}",
    "{{ raise_exception('no') }}",
    "{{ range(9) | list | tojson }}",
    "{{ m.__class__ }}",
    "{{ loop.index }}",
    "{{ bos_token }}",
    "{# note #}",
    "{{ ",
    " }}",
    "{% ",
    "\n",
    "text",
)
SOURCES = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
TEXTS = st.text(max_size=20)
MESSAGES = st.lists(
    st.builds(ChatMessage, st.sampled_from(["system", "user", "assistant"]), TEXTS), max_size=5
)


@settings(deadline=None)
@given(SOURCES, MESSAGES)
def test_any_source_gives_text_or_a_template_error(
    source: str, messages: list[ChatMessage]
) -> None:
    with contextlib.suppress(TemplateError):
        assert isinstance(ChatTemplate(source, "<s>").render(messages), str)


@settings(deadline=None)
@given(MESSAGES)
def test_chatml_holds_every_message_in_order(messages: list[ChatMessage]) -> None:
    text = ChatTemplate(CHATML).render(messages)
    expected = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in messages)
    assert text == expected + "<|im_start|>assistant\n"


@settings(deadline=None)
@given(MESSAGES)
def test_merging_the_system_message_loses_no_text_and_leaves_no_system(
    messages: list[ChatMessage],
) -> None:
    merged = merge_system(messages)
    assert all(message.role != "system" for message in merged)
    whole = "\n\n".join(message.content for message in merged)
    assert all(message.content in whole for message in messages)
