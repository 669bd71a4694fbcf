"""`lab completion`: the shell's tab completion of commands, ablations and overrides.

The script that the shell loads asks `lab completion words COMMAND WORD` for what WORD may become. Whether
that is an ablation, an override or neither, the command's own arguments say (lab/commands/arguments.py).
"""

import argparse

from lab.commands import COMMANDS, command

HELP = 'tab completion for bash or zsh: eval "$(lab completion bash)"'

SCRIPT = """_lab() {
  local word="${COMP_LINE:0:COMP_POINT}"
  word="${word##* }"
  COMPREPLY=($(lab completion words "${COMP_WORDS[1]}" "$word" 2>/dev/null))
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *= && ${COMPREPLY[0]} != *. ]] || compopt -o nospace
  if [[ $word == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#*=}"); fi
}
complete -F _lab lab
"""
SCRIPTS = {"bash": SCRIPT, "zsh": "autoload -U +X bashcompinit && bashcompinit\n" + SCRIPT}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "words"))
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    if options.shell != "words":
        print(SCRIPTS[options.shell], end="")
        return 0
    name, word = (*options.words, "", "")[:2]
    print("\n".join(candidates(name, word)))
    return 0


def candidates(name: str, word: str) -> list[str]:
    """What `word` may become after `lab name`: whole words, `group=` and `group.` to go on from, or
    `key=value`.
    """
    if name == word or name not in COMMANDS:
        return [known for known in COMMANDS if known.startswith(word)]
    parser = argparse.ArgumentParser()
    command(name).arguments(parser)
    offered = []
    if parser.get_default("takes_ablation"):
        from lab.plan.ablation import names

        offered += names()
    if parser.get_default("takes_overrides"):
        from lab.config.compose import groups, leaves

        key, equals, _ = word.partition("=")
        if equals:
            offered += [f"{key}={variant}" for variant in groups().get(key, ())]
        else:
            offered += [f"{group}=" for group in groups()]
            offered += (
                [f"{leaf}=" for leaf in leaves()] if "." in word else [f"{group}." for group in groups()]
            )
    return sorted(text for text in offered if text.startswith(word))
