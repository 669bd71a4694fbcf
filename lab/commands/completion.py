"""Tab completion: commands, ablations, and overrides key by key, from `conf/` and the schema."""

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


def candidates(command: str, word: str, *, commands: list[str], ablations: list[str]) -> list[str]:
    """What `word` may become after `lab command`: whole words, `group=` and `group.` to go on from, or
    `key=value`.
    """
    if command == word or command not in commands:
        return [name for name in commands if name.startswith(word)]
    if command in ("report", "publish"):
        return [name for name in ablations if name.startswith(word)]
    if command not in ("train", "sweep", "plan", "baselines", "noise"):
        return []
    from lab.config.compose import groups, leaves

    key, equals, value = word.partition("=")
    if equals:
        return [f"{key}={name}" for name in groups().get(key, ()) if name.startswith(value)]
    names = [f"{group}=" for group in groups()]
    names += [f"{leaf}=" for leaf in leaves()] if "." in word else [f"{group}." for group in groups()]
    names += ablations if command in ("sweep", "plan") else []
    return sorted(name for name in names if name.startswith(word))
