"""How do English words change with their neighbors? The article before a word, the plural of a noun."""

from collections.abc import Sequence


def with_article(phrases: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{article(phrase)} {phrase}" for phrase in phrases)


def article(phrase: str) -> str:
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "one", "use", "eu"))
    return "an" if vowel or phrase.startswith("honest") else "a"


def plural(noun: str) -> str:
    if noun == "sheep":
        return noun
    if noun.endswith("man"):
        return noun[:-2] + "en"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "x", "ch", "sh")) or noun in ("buffalo", "potato"):
        return noun + "es"
    return noun + "s"
