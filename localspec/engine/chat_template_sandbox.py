"""Jinja for templates that nobody has checked: they come out of downloaded files.

Three limits stand beside Jinja's immutable sandbox. Every loop turn and every call is counted;
every character written is counted, also where a template only collects it; and a clock stops what
neither count sees. Operators and filters that make much out of little are measured before they run.
What passes all of that still runs in the engine's process, which may die without harm.
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import datetime
from types import TracebackType
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

MAX_SOURCE = 1_000_000
"""Characters of a template; the longest in the wild has some 40,000."""
_MAX_ITEMS = 1_000_000
"""Length of any one string or list that an operator or filter makes."""
_SECONDS = 5.0
_BASE_STEPS = 1_000_000
_BASE_CHARACTERS = 4_000_000

# No template can write a name with a blank in it.
_STEPS_FILTER = "localspec steps"
_SIZE_FILTER = "localspec size"
_WIDE_FORMAT = re.compile(r"\d{6,}|%[-+ #0]*\*|%[^a-zA-Z%]*\.\*")
_DROPPED_FILTERS = ("center", "pprint", "random", "urlize", "wordwrap", "xmlattr")


class RaisedByTemplate(Exception):
    """The template called `raise_exception`."""


class LimitReached(Exception):
    """The template did more than any honest one does."""


class _OutOfTime(BaseException):
    """Thrown into the rendering thread; no `except Exception` on the way may stop it."""


class Budget:
    """What one rendering may still do."""

    def __init__(self, input_characters: int) -> None:
        self.steps = _BASE_STEPS + 4 * input_characters
        self.characters = _BASE_CHARACTERS + 16 * input_characters
        self._largest = _MAX_ITEMS + 4 * input_characters

    def step(self, characters: int = 0) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise LimitReached("it loops without end")
        self.emit(characters)

    def emit(self, characters: int) -> None:
        self.characters -= characters
        if self.characters < 0:
            raise LimitReached("its output is far larger than the conversation")

    def measure(self, count: int) -> None:
        """Refuse to make a string or list of `count` items where that is enormous."""
        if count > self._largest:
            raise LimitReached("it asks for an enormous string")

    def measure_method(self, owner: str, method: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a string method that would make an enormous string."""
        if method == "replace" and len(arguments) > 1:
            old, new = str(arguments[0]), str(arguments[1])
            self.measure(len(owner) + owner.count(old) * max(0, len(new) - len(old)))
        elif method == "join" and arguments and isinstance(arguments[0], list | tuple):
            items = arguments[0]
            self.measure(sum(len(str(item)) for item in items) + len(owner) * len(items))
        elif method in ("ljust", "rjust", "center", "zfill", "expandtabs"):
            width = sum(abs(argument) for argument in arguments if isinstance(argument, int))
            self.measure(width * max(1, owner.count("\t")))
        elif method in ("format", "format_map"):
            _refuse_wide_format(owner)


class Deadline:
    """Throws an exception into the thread that entered it, once the time is up."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._lock = threading.Lock()
        self._finished = False
        self._fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._finished = True
        self._timer.cancel()
        if self._fired and kind is not _OutOfTime:
            # Thrown but not yet arrived: wait for it here, not somewhere in the caller.
            for _ in range(100_000):
                pass

    def _fire(self) -> None:
        with self._lock:
            if not self._finished:
                self._fired = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(_OutOfTime)
                )


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
        seconds: float = _SECONDS,
    ) -> str:
        """What `template` writes. size: characters of the conversation, for the limits.

        Raises RaisedByTemplate, LimitReached, and whatever the template's own code raises.
        """
        self.budget = Budget(size)
        try:
            with Deadline(seconds):
                return template.render(variables)
        except _OutOfTime:
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
            _refuse_wide_format(left)
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
    _refuse_wide_format(value)
    return value % (kwargs or args)


def _measured_indent(
    context: Context, s: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    indent: Callable[..., str] = FILTERS["indent"]
    one = width if isinstance(width, int) else len(width)
    _budget(context).measure(len(s) + one * (s.count("\n") + 1))
    return indent(s, width, first, blank)


def _refuse_wide_format(text: str) -> None:
    if _WIDE_FORMAT.search(text):
        raise LimitReached("it asks for an enormous string")


def _bits(number: Any) -> int:
    return number.bit_length() if isinstance(number, int) else 0
