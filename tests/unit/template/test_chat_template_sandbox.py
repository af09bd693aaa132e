"""Hostile chat templates: none reaches Python, none runs on, none fills the memory."""

from __future__ import annotations

import threading

import pytest

from localspec.engine.chat_template import ChatTemplate
from localspec.engine.chat_template_limits import Deadline, LimitReached
from localspec.engine.chat_template_sandbox import TemplateEnvironment
from localspec.engine.settings import ChatMessage
from localspec.errors import TemplateError

USER = ChatMessage("user", "hello")

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ messages[0]['__class__'] | attr('__init__') }}{{ '' | attr('__class__') }}",
    "{{ range.__globals__ }}",
    "{{ raise_exception.__globals__['__builtins__'] }}",
    "{{ strftime_now.__code__ }}",
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ '{0.__class__.__init__}'.format(messages) }}",
    "{{ '{x.__class__}'.format_map({'x': messages}) }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'content': 'other'}) }}",
    "{{ messages.clear() }}",
]

BOMBS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{{ range(10**9) | list }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 10 ** 1000000000 }}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.s = ns.s.replace('a', 'aaaaaaaaaaaaaaaa') %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.s = ns.s | replace('a', 'aaaaaaaaaaaaaaaa') %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.s = ([ns.s] * 100) | join(ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' | format(1000000000, 1) }}",
    "{{ '{:1000000000d}'.format(1) }}",
    "{{ 'a' | indent(1000000000, true) }}",
    "{{ messages | tojson(indent=1000000000) }}",
    "{% for i in range(99999) %}" + "x" * 100_000 + "{% endfor %}",
    "{% for i in range(99999) %}{{ messages | tojson }}{% for j in range(99) %}"
    "{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}{% endfor %}",
    "x" * 2_000_000,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_no_template_reaches_python_or_changes_the_conversation(source: str) -> None:
    with pytest.raises(TemplateError, match=r"tries what it may not|fails"):
        ChatTemplate(source).render([USER])


@pytest.mark.parametrize("source", BOMBS, ids=[source[:40] for source in BOMBS])
def test_no_template_runs_on_or_fills_the_memory(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source).render([USER])


def test_a_long_conversation_is_within_the_limits() -> None:
    source = "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ '\n' }}{% endfor %}"
    long = [ChatMessage("user", "word " * 400) for _ in range(3000)]
    text = ChatTemplate(source).render(long)
    assert text.count("user:") == 3000
    huge = [ChatMessage("user", "word " * 1_000_000)]
    for source in ("{{ 'a' + messages[0].content + 'b' }}", "{{ messages[0].content | trim }}"):
        assert len(ChatTemplate(source).render(huge)) >= 4_999_999


def test_the_same_template_serves_after_it_was_stopped() -> None:
    source = (
        "{% if messages[0].content == 'go' %}{% for a in range(99999) %}{% for b in range(99999) %}"
        "{% endfor %}{% endfor %}{% endif %}{{ messages[0].content }}"
    )
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match="loops without end"):
        template.render([ChatMessage("user", "go")])
    assert template.render([USER]) == "hello"


def test_the_deadline_ends_a_loop_that_nobody_counts() -> None:
    environment = TemplateEnvironment()
    environment.globals["spin"] = _spin
    template = environment.compile_template("{{ spin() }}")
    with pytest.raises(LimitReached, match="did not finish"):
        environment.run(template, {}, 0, seconds=0.05)


def test_a_deadline_that_was_met_throws_nothing_later() -> None:
    for _ in range(50):
        with Deadline(0.0005):
            pass
    assert all(not isinstance(t, threading.Timer) or t.daemon for t in threading.enumerate())


def _spin() -> None:
    while True:
        pass
