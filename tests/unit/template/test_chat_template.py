"""Chat templates: the forms that real models use, and what happens to broken ones."""

from __future__ import annotations

import re

import pytest

from localspec.engine.chat_template import CHATML, ChatTemplate, merge_system, template_for
from localspec.engine.settings import ChatMessage
from localspec.errors import TemplateError

SYSTEM = ChatMessage("system", "Be brief.")
USER = ChatMessage("user", "Hällo 😀")
TURN = (USER, ChatMessage("assistant", "Hi.", thinking="Greet back."), ChatMessage("user", "Bye"))

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The template inside SmolLM2-135M-Instruct."""

GEMMA_STYLE = """\
{{ bos_token }}
{%- if messages[0].role == 'system' %}
  {{- raise_exception('System role not supported') }}
{%- endif %}
{%- for message in messages %}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('Roles must alternate') }}
  {%- endif %}
  {%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
  {{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""

LLAMA3_STYLE = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}{% for t in tools %}{{ t | tojson(indent=4) }}{% endfor %}{% endif %}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

QWEN3_STYLE = """\
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- if message.role == "user" %}
        {%- set ns.last = messages|length - 1 - loop.index0 %}{% break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and loop.index0 > ns.last and message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

MISTRAL_STYLE = """\
{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}\
{{ '[INST] ' + message['content'] + ' [/INST]' }}\
{% elif message['role'] == 'assistant' %}{% generation %}\
{{ ' ' + message['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}\
"""
"""Says nothing about system messages: they would be lost."""

TYPED_STYLE = """\
{% for message in messages %}{% for part in message.content %}\
{% if part.type == 'text' %}{{ message.role + ': ' + part.text + '\n' }}{% endif %}\
{% endfor %}{% endfor %}"""


def test_smollm2_inserts_its_own_system_message() -> None:
    assert ChatTemplate(SMOLLM2).render([USER]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHällo 😀<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ChatTemplate(SMOLLM2).render([SYSTEM, USER], add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHällo 😀<|im_end|>\n"
    )


def test_a_refused_system_message_opens_the_first_user_message() -> None:
    template = ChatTemplate(GEMMA_STYLE, bos="<bos>")
    text = template.render([SYSTEM, *TURN])
    assert text == (
        "<bos><start_of_turn>user\nBe brief.\n\nHällo 😀<end_of_turn>\n"
        "<start_of_turn>model\nHi.<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n"
        "<start_of_turn>model\n"
    )
    assert template.writes_bos(text)


def test_a_silently_dropped_system_message_opens_the_first_user_message() -> None:
    template = ChatTemplate(MISTRAL_STYLE, bos="<s>", eos="</s>")
    assert template.render([SYSTEM, *TURN]) == (
        "<s>[INST] Be brief.\n\nHällo 😀 [/INST] Hi.</s>[INST] Bye [/INST]"
    )


def test_what_the_template_raises_is_the_error() -> None:
    with pytest.raises(TemplateError, match="refuses: Roles must alternate"):
        ChatTemplate(GEMMA_STYLE).render([USER, USER])


def test_llama3_style_knows_the_date_and_tools() -> None:
    text = ChatTemplate(LLAMA3_STYLE, bos="<|begin_of_text|>").render(
        [SYSTEM, USER], tools=[{"name": "wéather"}]
    )
    assert re.search(r"Today Date: \d\d \w{3} \d{4}\n\n", text)
    assert '{\n    "name": "wéather"\n}' in text
    assert text.endswith("Hällo 😀<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")


def test_qwen3_style_shows_thinking_of_the_current_turn_only() -> None:
    template = ChatTemplate(QWEN3_STYLE)
    assert "Greet back." not in template.render(TURN)
    assert "<think>\nGreet back.\n</think>\n\nHi." in template.render(TURN[:2])
    closed = template.render([USER], variables={"enable_thinking": False})
    assert closed.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_content_in_typed_parts_is_given_to_templates_that_want_it() -> None:
    assert ChatTemplate(TYPED_STYLE).render([USER]) == "user: Hällo 😀\n"


def test_tool_templates_work_without_tools() -> None:
    source = "{% for t in tools %}{{ t }}{% endfor %}{{ messages[0].content }}"
    assert ChatTemplate(source).render([USER]) == USER.content


def test_a_model_without_template_gets_chatml_and_a_notice() -> None:
    template, notice = template_for(None)
    assert notice is not None
    assert template.source == CHATML
    assert template.render([USER]) == (
        "<|im_start|>user\nHällo 😀<|im_end|>\n<|im_start|>assistant\n"
    )
    assert template_for("{{ messages[0].content }}")[1] is None


def test_bos_is_noticed_only_where_it_is_written() -> None:
    template = ChatTemplate("{{ messages[0].content }}", bos="<s>")
    assert not template.writes_bos(template.render([USER]))
    assert not ChatTemplate("x", bos="").writes_bos("x")


def test_blocks_leave_no_blank_lines() -> None:
    assert ChatTemplate("{% if true %}\n  {% if true %}\nA\n  {% endif %}\n{% endif %}\n").render(
        [ChatMessage("user", "A")]
    ) == ("A\n")


def test_merge_system_keeps_everything_else() -> None:
    assert merge_system([SYSTEM, *TURN])[1:] == list(TURN[1:])
    assert merge_system([SYSTEM]) == [ChatMessage("user", "Be brief.")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\n{% for m in messages %}", "broken in line 2"),
        ("{{ messages[0].content ", "broken in line 1"),
        ("{% unknown %}", "broken in line 1"),
        ("{{ 'x' | nosuchfilter }}", "broken in line 1"),
        ("{{ nothing.at.all }}", "fails: UndefinedError"),
        ("{{ 1 / 0 }}", "fails: ZeroDivisionError"),
        ("{% include 'other' %}", "fails: TypeError"),
        ("{{ raise_exception('two\nlines') }}", "refuses: two\nlines"),
    ],
)
def test_a_broken_template_is_one_template_error(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source).render([USER])
    assert message in caught.value.message
    assert "--raw" in caught.value.hint
    assert caught.value.exit_code == 6
