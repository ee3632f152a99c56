"""`jaxner completion`: scripts that complete commands, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Literal

from jaxner import cli

# A word that is neither a command nor an option may be a file. zsh runs bash's script.
_BASH = """\
_jaxner() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}} words=
    # Bash parts --option=value in three.
    [ "$last" = = ] && last=${{COMP_WORDS[COMP_CWORD-2]}}
    [ "$word" = = ] && word=
    if [ "$COMP_CWORD" = 1 ]; then words="{commands}"; else
        case "${{COMP_WORDS[1]}} $last" in
{values}
        esac
        case "${{COMP_WORDS[1]}} $word" in
{options}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _jaxner jaxner
"""
_ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Prints a script that completes commands, options and their values on Tab.

        eval "$(jaxner completion bash)"         # in ~/.bashrc
        eval "$(jaxner completion zsh)"          # in ~/.zshrc
        jaxner completion fish | source          # in ~/.config/fish/config.fish

    Args:
        shell: Shell that runs the script.
    """
    scripts = {"bash": _bash, "zsh": lambda: _ZSH + _bash(), "fish": _fish}
    print(scripts[shell](), end="")


def _bash() -> str:
    values, options = [], []
    for name in cli.COMMANDS:
        flags: list[str] = []
        for action, words in _actions(name):
            flags += (x for x in action.option_strings if x.startswith("--"))
            starts = (f'"{name} {x}"' for x in action.option_strings or [name])
            line = f'            {" | ".join(starts)}) words="{" ".join(words)}" ;;'
            values += [line] * bool(words)
        options.append(f'            "{name} -"*) words="{" ".join(flags)}" ;;')
    lists = {"values": "\n".join(values), "options": "\n".join(options)}
    return _BASH.format(commands=" ".join(cli.COMMANDS), **lists)


def _fish() -> str:
    lines = [
        f"-n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for group in cli.GROUPS.values()
        for name, (_, text) in group.items()
    ]
    for name in cli.COMMANDS:
        for action, words in _actions(name):
            parts = [
                f"-{'l' if x[:2] == '--' else 's'} {x.lstrip('-')}"
                for x in action.option_strings
            ]
            parts += ["-r"] if parts and action.nargs != 0 else []
            parts += ["-f", "-a", _quoted(" ".join(words))] if words else []
            if action.option_strings:
                meaning = (action.help or "").partition(". ")[0].rstrip(".")
                parts += ["-d", _quoted(meaning)]
            start = f"-n '__fish_seen_subcommand_from {name}'"
            lines += [" ".join([start, *parts])] * bool(parts)
    return "".join(f"complete -c jaxner {line}\n" for line in lines)


def _actions(name: str) -> Iterator[tuple[argparse.Action, Sequence[str]]]:
    """Yields the options and arguments of a command, and the words that each takes."""
    from jaxner import configuration

    parser = cli.parser_of(cli.function_of(name))
    for action in parser._actions:
        is_config = action.dest == "config" and not action.option_strings
        words = configuration.names() if is_config else parser.words.get(action.dest)
        yield action, words or ()


def _quoted(text: str) -> str:
    """Returns a word as fish reads it."""
    content = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{content}'"
