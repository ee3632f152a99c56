"""`jaxner completion`: scripts that complete commands, options and their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from jaxner import cli

# A word that is neither a command nor an option may be a file. zsh runs bash's script.
_BASH = """\
_jaxner() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}} words=
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
        parser = cli.parser_of(cli.function_of(name))
        flags = " ".join(flag for flag in parser.actions if flag.startswith("--"))
        options.append(f'            "{name} -"*) words="{flags}" ;;')
        for last, words in _values(name, parser):
            pattern = " | ".join(f'"{name} {word}"' for word in last)
            values.append(f'            {pattern}) words="{" ".join(words)}" ;;')
    lists = {"values": "\n".join(values), "options": "\n".join(options)}
    return _BASH.format(commands=" ".join(cli.COMMANDS), **lists)


def _fish() -> str:
    lines = []
    for group in cli.GROUPS.values():
        for name, (_, text) in group.items():
            lines.append(f"-n __fish_use_subcommand -f -a {name} -d {_quoted(text)}")
    for name in cli.COMMANDS:
        parser = cli.parser_of(cli.function_of(name))
        values = {last[0]: words for last, words in _values(name, parser)}
        start = f"-n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            flags = [
                f"-{'l' if x[:2] == '--' else 's'} {x.lstrip('-')}"
                for x in action.option_strings
            ]
            words = values.get((action.option_strings or [name])[0], ())
            takes = ["-r"] if action.nargs != 0 and flags else []
            takes += ["-f", "-a", _quoted(" ".join(words))] if words else []
            meaning = _quoted((action.help or "").partition(".")[0])
            if flags or words:
                line = [start, *flags, *takes, *(["-d", meaning] if flags else [])]
                lines.append(" ".join(line))
    return "".join(f"complete -c jaxner {line}\n" for line in lines)


def _values(
    name: str, parser: cli.Parser
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yields which words, after which of the words before them, a command knows."""
    from jaxner import configuration

    for action in parser._actions:
        is_config = action.dest == "config" and not action.option_strings
        words = configuration.names() if is_config else parser.words.get(action.dest)
        if words:
            yield action.option_strings or [name], words


def _quoted(text: str) -> str:
    """Returns a word as fish reads it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
