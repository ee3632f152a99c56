"""The pages that the site makes from the code: commands, options, formats, environment.

`on_files`, `on_page_markdown` and `on_post_page` are hooks of mkdocs (see mkdocs.yml);
mkdocstrings makes the Python API.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jaxner import cli, configuration, fields, runs
from jaxner.data import formats, schemes, spans
from jaxner.data.sources import Example
from jaxner.fields import Part
from jaxner.models import TABLES
from jaxner.models.options import Section, section_of
from jaxner.training import schema

VARIABLES = {
    "JAXNER_DATA": "Folder of corpora and word vectors; default: `data`.",
    "JAXNER_API_KEY": "Key that requests to `jaxner serve` need.",
    "JAX_COMPILATION_CACHE_DIR": "Folder for compiled programs, without `--cache`.",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "See JAX; jaxner's default: 0.",
    "XDG_CACHE_HOME": "Folder of all caches on Linux; default: `~/.cache`.",
    "LOCALAPPDATA": "Folder of all caches on Windows.",
    "JAX_DEFAULT_MATMUL_PRECISION": "See JAX; jaxner's default: highest.",
    "XLA_FLAGS": "Options of XLA; `--config.deterministic=True` adds some.",
    "NO_COLOR": "If set, errors have no colour.",
}
"""The environment variables that jaxner reads."""

_OPTIONS = """# Configs and options

`jaxner train CONFIG --config.PATH.OPTION=VALUE` sets an option; `jaxner options CONFIG`
lists those of a config. Each heading is a path: `batch_size` of a run is
`--config.batch_size`, `scheme` of data is `--config.data.scheme`. If a part has several
forms, the heading names one, as in *model.head, crf*. Options of the optimizer also go
to the weights below a path: `--config.optimizer.parts.PATH.OPTION`.

`CONFIG:…` takes the config's variants (its text lists them), a data set ({})
and [other parts](extending.md#combine-existing-parts):

"""
_FORMATS = """# File formats

jaxner recognises the format of a file by its name; `--format`, or
`--config.data.format`, overrides it. The examples show one sentence in each format.

"""
_EXAMPLE = Example(("Ms", "Ann", "won"), ("B-PER", "I-PER", "O"), document=1)
_SPANS = [schemes.Span(*x) for x in ((0, 3, "PER"), (3, 4, "PER"), (5, 6, "ORG"))]


def _table(*rows: Iterable[Any]) -> str:
    """Returns a table; the first row is its head."""
    lines = [" | ".join(str(x).replace("|", r"\|") for x in row) for row in rows]
    lines.insert(1, "|".join(["---"] * (lines[0].count(" | ") + 1)))
    return "".join(f"| {line.replace('<', '&lt;')} |\n" for line in lines) + "\n"


def commands() -> str:
    """Returns the page of all commands, by group, from their parsers."""
    text = "# Commands\n\n"
    for title, group in cli.GROUPS.items():
        text += f"## {title}\n\n"
        for name in group:
            parser = cli.parser_of(cli.function_of(name))
            text += f"### jaxner {name}\n\n```text\n{parser.usage}\n```\n\n"
            text += f"{parser.description}\n\n"
            for part in parser._action_groups:
                if actions := part._group_actions:
                    rows = ((_spelling(x), x.help) for x in actions)
                    text += _table((part.title, "Meaning"), *rows)
            if parser.takes_overrides:
                text += "`--config.…` sets the [options of a config](options.md).\n\n"
    return text


def _spelling(action: Any) -> str:
    value = f" {action.metavar}" if action.nargs != 0 and action.option_strings else ""
    return f"`{', '.join(action.option_strings) or action.metavar}{value}`"


def options() -> str:
    """Returns the page of all options, by section, and of what each config sets."""
    top, *_ = schema.sections(configuration.load("grn"))
    rows = ((f"`{part}=`", ", ".join(table)) for part, table in TABLES.items())
    text = _OPTIONS.format(", ".join(schema.DATASETS))
    text += _table(("Part", "Names"), *rows) + f"## A run\n\n{_options(top)}"
    kinds: set[Any] = set()
    for name, part in top.inner.items():
        text += "".join(_parts(name, part, kinds))
    for name in configuration.names():
        docstring = configuration.describe(name).partition("\n--config.")[0]
        text += f"## Config {name}\n\n{docstring}\n\n{_departures(name)}"
    return text


def _parts(path: str, part: Part, kinds: set[Any]) -> Iterator[str]:
    """Yields the options of a part in all its forms, then of the parts within."""
    names = TABLES[part.kind] if isinstance(part.kind, str) else ("",)
    part = dataclasses.replace(part, is_many=False)
    new = [(name, section_of(path, {"name": name}, part)) for name in names]
    new = [(name, section) for name, section in new if section.kind not in kinds]
    kinds |= {section.kind for _, section in new}
    for name, section in new:
        yield f"## {path}{f', {name}' * bool(name)}\n\n{_options(section)}"
    for _, section in new:
        for inner, kind in section.inner.items():
            yield from _parts(f"{path}.{inner}", kind, kinds)


def _options(section: Section) -> str:
    rows = (
        (f"`{name}`", _value(field.default), kinds, field.meaning)
        for name, field in section.fields.items()
        for kinds in [" or ".join(map(str, fields.kinds(field.hint)))]
        if name != "name" or section.path == "data"  # else the heading has it
    )
    return _table(("Option", "Default", "Values", "Meaning"), *rows)


def _value(value: Any) -> str:
    return "the config's" if value is fields.REQUIRED else f"`{value}`"


def _departures(name: str) -> str:
    """Returns the table of the options that a config sets to another value."""
    rows = (
        (f"`{section.flag(option)}`", _value(section.values[option]))
        for section in schema.sections(configuration.load(name))
        for option, field in section.fields.items()
        if section.values.get(option, field.default) != field.default
    )
    return _table((f"`{name}` sets", "to"), *rows)


def formats_page() -> str:
    """Returns the page of formats: from their readers, and what the writers write."""
    text, names = _FORMATS, dict[Any, str]()
    for name, format in formats.FORMATS.items():
        reader = getattr(format.read, "func", format.read)  # of a partial
        meaning = inspect.cleandoc(reader.__doc__ or "")
        meaning = re.sub(r"https:[^\s,]+", r"<\g<0>>", meaning)
        if (first := names.setdefault(reader, name)) != name:
            meaning = f"jaxner reads it as {first}, and writes it as below."
        text += f"## {name}\n\n{meaning}\n\n"
        lists = (", ".join(x) or "–" for x in (format.endings, format.options))
        text += _table(("Names end with", "Options"), lists)
        if format.write:
            content = "".join(format.write([_EXAMPLE], False)).rstrip()
            text += f"```text\n{content}\n```\n\n"
    text += f"## text\n\n{inspect.cleandoc(spans.texts.__doc__ or '')}\n\n"
    rows = ((x, *schemes.to_labels(_SPANS, 6, x)) for x in schemes.SCHEMES)
    text += "## Schemes of labels\n\n"
    text += "Tokens 1 to 3 are one PER, token 4 is another, token 6 is an ORG.\n\n"
    text += _table(("Scheme", *"123456"), *rows)
    return text + f"## The folder of a run\n\n```text\n{runs.__doc__}```\n"


def environment() -> str:
    """Returns the page of exit statuses and environment variables."""
    rows = ((f"`{name}`", meaning) for name, meaning in VARIABLES.items())
    text = "# Exit statuses and environment variables\n\n"
    text += _table(("Status", "Meaning"), *cli.STATUSES.items())
    return text + _table(("Environment variable", "Meaning"), *rows)


PAGES = {"commands": commands, "options": options}
PAGES |= {"formats": formats_page, "environment": environment}


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds the pages to the site."""
    from mkdocs.structure.files import File  # comes with the extra docs

    for name, page in PAGES.items():
        files.append(File.generated(config, f"{name}.md", content=page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links the titles of these pages, which other pages have in italics.

    A link in the file itself would lead nowhere outside of the site.
    """
    for name, page in PAGES.items():
        title = page().partition("\n")[0].removeprefix("# ")
        markdown = markdown.replace(f"*{title}*", f"[{title}]({name}.md)")
    return markdown


def on_post_page(output: str, **_: Any) -> str:
    """Breaks long words of code in a sentence or table after punctuation, not after --.

    So tables fit narrow screens. The search has read the page before: it finds words.
    """

    def long(word: re.Match[str]) -> str:
        pattern = r"([\w)][._:,=/]|[^\W_]{20})(?=[\w(])"
        return re.sub(pattern, r"\1<wbr>", word[0])

    def breakable(code: re.Match[str]) -> str:
        text = re.sub(r"\S{15,}", long, code[0])
        return re.sub(r"--\w+", r'<span class="flag">\g<0></span>', text)

    return re.sub(r"(?<=<code>)[^<\n]+(?=</code>)", breakable, output)
