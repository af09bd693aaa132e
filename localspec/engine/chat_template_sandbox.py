"""Jinja for templates that nobody has checked: they come out of downloaded files.

Three limits stand beside Jinja's immutable sandbox. Every loop turn and every call is counted;
every character written is counted, also where a template only collects it; and a clock stops what
neither count sees. Operators and filters that make much out of little are measured before they run.
What passes all of that still runs in the engine's process, which may die without harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from localspec.engine.chat_template_limits import (
    SECONDS,
    Budget,
    Deadline,
    LimitReached,
    OutOfTime,
    refuse_wide_format,
)

MAX_SOURCE = 1_000_000
"""Characters of a template; the longest in the wild has some 40,000."""

# No template can write a name with a blank in it.
_STEPS_FILTER = "localspec steps"
_SIZE_FILTER = "localspec size"
_DROPPED_FILTERS = ("center", "pprint", "random", "urlize", "wordwrap", "xmlattr")


class RaisedByTemplate(Exception):
    """The template called `raise_exception`."""


class GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks text for training; here it is only text."""

    tags = {"generation"}  # noqa: RUF012 - declared so by Jinja

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Metered(NodeTransformer):
    """Passes what a `for` runs over, and what `~` makes, through filters that measure it."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's naming
        self.generic_visit(node)
        size = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.iter = nodes.Filter(
            node.iter, _STEPS_FILTER, [nodes.Const(size)], [], None, None, lineno=node.lineno
        )
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's naming
        self.generic_visit(node)
        return nodes.Filter(node, _SIZE_FILTER, [], [], None, None, lineno=node.lineno)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox in which a chat template is compiled and runs, one rendering at a time."""

    intercepted_binops = frozenset(["*", "**", "%", "+"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, GenerationTag],
            finalize=_emit,
            optimized=False,  # constants are folded while compiling, outside of every limit
        )
        self.budget = Budget(0)
        self.globals = {
            name: value for name, value in self.globals.items() if name in _KEPT_GLOBALS
        }
        self.globals["strftime_now"] = _strftime_now
        self.globals["raise_exception"] = _raise_exception
        self.filters = {k: v for k, v in FILTERS.items() if k not in _DROPPED_FILTERS}
        self.filters["tojson"] = pass_context(_tojson)
        self.filters["join"] = pass_context(_measured_join)
        self.filters["replace"] = pass_context(_measured_replace)
        self.filters["format"] = _measured_format
        self.filters["indent"] = pass_context(_measured_indent)
        self.filters[_SIZE_FILTER] = pass_context(_measured_text)
        self.filters[_STEPS_FILTER] = pass_context(_count_steps)

    def compile_template(self, source: str) -> jinja2.Template:
        """Raises jinja2.TemplateSyntaxError, LimitReached."""
        if len(source) > MAX_SOURCE:
            raise LimitReached(f"it has {len(source):,} characters, more than {MAX_SOURCE:,}")
        tree = _Metered().visit(self.parse(source))
        return jinja2.Template.from_code(self, self.compile(tree), self.globals)

    def run(
        self,
        template: jinja2.Template,
        variables: Mapping[str, Any],
        size: int,
        *,
        seconds: float = SECONDS,
    ) -> str:
        """What `template` writes. size: characters of the conversation, for the limits.

        Raises RaisedByTemplate, LimitReached, and whatever the template's own code raises.
        """
        self.budget = Budget(size)
        try:
            with Deadline(seconds):
                return template.render(variables)
        except OutOfTime:
            raise LimitReached(f"it did not finish in {seconds:g} seconds") from None

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self.budget.step()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            self.budget.measure_method(owner, getattr(obj, "__name__", ""), args)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        measure = self.budget.measure
        if operator == "*":
            measure(_bits(left) + _bits(right))
            for sequence, times in ((left, right), (right, left)):
                if isinstance(sequence, Sized) and isinstance(times, int):
                    measure(len(sequence) * times)
        elif operator == "**" and isinstance(right, int):
            measure(_bits(left) * abs(right))
        elif operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
            measure(len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            refuse_wide_format(left)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        owner = getattr(value, "__self__", None)
        if isinstance(owner, str):
            self.budget.measure_method(owner, getattr(value, "__name__", ""), ())
        return super().wrap_str_format(value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        # Jinja lets a forbidden attribute be printed as nothing; one try is reason enough to stop.
        raise SecurityError(
            f"access to attribute {attribute!r} of {type(obj).__name__!r} object is unsafe"
        )


_KEPT_GLOBALS = ("range", "dict", "namespace", "cycler", "joiner")


@pass_context
def _emit(context: Context, value: Any) -> Any:
    budget = _budget(context)
    text = value if isinstance(value, str) else str(value)
    budget.emit(len(text))
    return text


def _count_steps(context: Context, items: Iterable[Any], characters: int) -> Iterator[Any]:
    budget = _budget(context)
    for item in items:
        budget.step(characters)
        yield item


def _measured_text(context: Context, text: str) -> str:
    _budget(context).emit(len(text))
    return text


def _budget(context: Context) -> Budget:
    environment = context.environment
    assert isinstance(environment, TemplateEnvironment)
    return environment.budget


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)  # the user's own local time is what templates want


def _raise_exception(message: str) -> None:
    raise RaisedByTemplate(str(message))


def _tojson(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # As Hugging Face's transformers do it: letters stay letters, nothing is escaped for HTML.
    if indent is not None:
        _budget(context).measure(indent * 1000)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _measured_join(context: Context, value: Any, d: str = "", attribute: Any = None) -> str:
    join: Callable[..., str] = FILTERS["join"]
    items = list(value)
    # Of what an attribute holds the length is not known; it is at least not longer than this.
    size = sum(len(str(item)) for item in items) + len(d) * len(items)
    _budget(context).measure(size)
    return join(context.eval_ctx, items, d, attribute)


def _measured_replace(
    context: Context, s: str, old: str, new: str, count: int | None = None
) -> str:
    replace: Callable[..., str] = FILTERS["replace"]
    _budget(context).measure_method(str(s), "replace", (str(old), str(new)))
    return replace(context.eval_ctx, s, old, new, count)


def _measured_format(value: str, *args: Any, **kwargs: Any) -> str:
    refuse_wide_format(value)
    return value % (kwargs or args)


def _measured_indent(
    context: Context, s: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    indent: Callable[..., str] = FILTERS["indent"]
    one = width if isinstance(width, int) else len(width)
    _budget(context).measure(len(s) + one * (s.count("\n") + 1))
    return indent(s, width, first, blank)


def _bits(number: Any) -> int:
    return number.bit_length() if isinstance(number, int) else 0
