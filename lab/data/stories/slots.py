"""What do the slots of a sentence say? Words that the state of the story allows, or forces."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.data.stories.decision_table import DecisionTable
from lab.data.stories.telling import (
    AGREEMENT,
    COLLOCATION,
    COPY,
    COUNTING,
    FACTS,
    LEXICAL,
    MORAL,
    STATE,
    SYNTAX,
    Telling,
)
from lab.data.stories.template import DescribedNouns, DrawnNoun, DrawnWords, LiteralWords, Step
from lab.data.stories.world import World

PRONOUNS = {"girl": ("she", "her", "her"), "boy": ("he", "him", "his")}
RIVALS = (("he", "she", "they"), ("him", "her", "them"), ("his", "her", "their"))
MOST_ADDED = 3
MAX_DEPTH = 3
"""Relative clauses within one another."""


@dataclass
class Thing:
    """An object that is described once and then comes back word for word: who has it, or where it lies."""

    words: tuple[str, ...]
    rivals: tuple[Sequence[str], ...]
    holder: str | None
    place: str = ""


class Slots:
    """The state of one story, and a method `slot_<name>` for each slot of a template that depends on it.

    Each tells its words with the punctuation `before` and `after` them, at no cost where the state forces
    them, and changes the state. cast: the names, the child's first. things: in the order that they came.
    subject: who did something last; addressee: to whom; held, taken: the things that it was about. count:
    how many of `counted` there are; told: events so far.
    """

    def __init__(self, world: World, telling: Telling) -> None:
        self.world = world
        self.telling = telling
        self.cast: list[str] = []
        self.things: list[Thing] = []
        self.child = self.subject = self.addressee = self.town = self.noun = self.trait = ""
        self.count = self.told = 0
        self.counted = self.world.counted[0]
        self.counted_told = False
        self.held = self.taken = Thing((), (), None)

    def fill(self, steps: Sequence[Step]) -> None:
        """Tells the steps of a template one after the other."""
        telling = self.telling
        for step in steps:
            if isinstance(step, LiteralWords):
                telling.words += step.words
                telling.bits += step.bits
                telling.skills += step.skills
            elif isinstance(step, DrawnWords):
                start = len(telling.words)
                telling.say(step.table)
                if step.listed:
                    known = step.listed.known
                    telling.offer(start, LEXICAL, self.world.strange, known, step.before, step.after)
            elif isinstance(step, DrawnNoun):
                self.noun = self.describe(step.table, step.nouns, step.after)[-1]
            else:
                getattr(self, step.method)(*step.arguments)

    def describe(self, table: DecisionTable, kind: DescribedNouns, after: str) -> tuple[str, ...]:
        """Tells adjectives and their noun after an article; returns them."""
        index = self.telling.say(table)
        _, *adjectives, noun = kind.table.items[index].split()
        fitting = kind.fitting[tuple(adjectives)]
        self.telling.offer(len(self.telling.words) - 1, COLLOCATION, kind.nouns, fitting, "", after)
        if after.endswith('"'):
            self.telling.offer(len(self.telling.words) - 1, SYNTAX, (noun + after[:-1],), ())
        return (*adjectives, noun)

    # --- Who is in it ---

    def slot_a_trait(self, before: str, after: str) -> None:
        index = self.telling.say(self.world.traits)
        self.trait = self.world.traits.items[index].split()[1]

    def slot_child(self, before: str, after: str) -> None:
        self.child = ("girl", "boy")[self.telling.say_one_of(("girl", "boy"), LEXICAL)]

    def slot_same_child(self, before: str, after: str) -> None:
        self.subject = self.cast[0]
        self.telling.recall(self.child, ("girl", "boy"), AGREEMENT, before, after)

    def slot_name(self, before: str, after: str) -> None:
        names = self.world.girls if self.child == "girl" else self.world.boys
        self.subject = names.items[self.telling.say(names.dressed(before, after))]
        self.cast.append(self.subject)

    def slot_friend(self, before: str, after: str) -> None:
        names = self.world.names
        used = [self.world.name_index[name] for name in self.cast]
        self.subject = names.items[self.telling.say(names.dressed(before, after), used)]
        self.cast.append(self.subject)

    def slot_town(self, before: str, after: str) -> None:
        self.town = self.world.towns.items[self.telling.say(self.world.towns.dressed(before, after))]

    def slot_hero(self, before: str, after: str) -> None:
        self.name_again(self.cast[0], COPY, before, after)

    def slot_back(self, before: str, after: str) -> None:
        self.name_again(self.addressee, COPY, before, after)

    def name_again(self, name: str, skill: int, before: str, after: str) -> None:
        self.subject = name
        rivals = self.cast if len(self.cast) > 1 else [name, *self.world.rival_names(name)]
        self.telling.recall(name, rivals, skill, before, after)

    def choose(self, people: Sequence[str], before: str, after: str) -> str:
        """Someone whom the state allows here. Where it allows one alone, it forces the name."""
        telling = self.telling
        if len(people) == 1:
            telling.recall(people[0], self.cast, STATE, before, after)
            return people[0]
        start = len(telling.words)
        dressed = [before + name + after for name in people] if before or after else people
        name = people[telling.say_one_of(dressed, STATE)]
        if len(people) < len(self.cast):
            telling.offer(start, STATE, self.cast, people, before, after)
        return name

    def slot_person(self, before: str, after: str) -> None:
        self.subject = self.choose(self.cast, before, after)

    def slot_other(self, before: str, after: str) -> None:
        self.addressee = self.choose([name for name in self.cast if name != self.subject], before, after)

    def slot_holder(self, before: str, after: str) -> None:
        holders = {thing.holder for thing in self.things}
        self.subject = self.choose([name for name in self.cast if name in holders], before, after)

    def slot_taker(self, before: str, after: str) -> None:
        holders = {thing.holder for thing in self.things if thing.holder}
        takers = [name for name in self.cast if holders - {name}]
        self.subject = self.choose(takers, before, after)

    def slot_swapper(self, before: str, after: str) -> None:
        self.slot_holder(before, after)

    def slot_owner(self, before: str, after: str) -> None:
        self.telling.recall(self.taken.holder or "", self.cast, STATE, before, after)

    def pronoun(self, case: int, before: str, after: str) -> None:
        gender = self.world.gender[self.subject]
        self.telling.recall(PRONOUNS[gender][case], RIVALS[case], AGREEMENT, before, after)

    def slot_he(self, before: str, after: str) -> None:
        self.pronoun(0, before, after)

    def slot_him(self, before: str, after: str) -> None:
        self.pronoun(1, before, after)

    def slot_his(self, before: str, after: str) -> None:
        self.pronoun(2, before, after)

    def slot_they(self, before: str, after: str) -> None:
        self.telling.recall("they", ("they", "he", "she"), AGREEMENT, before, after)

    # --- Things: who has them, where they lie ---

    def slot_a_thing(self, before: str, after: str) -> None:
        kind = self.world.things[len(self.things)]
        words = self.describe(kind.table.dressed(before, after), kind, after)
        rivals = (*self.world.rival_adjectives, kind.nouns)
        self.things.append(Thing(words, rivals, self.subject))

    def slot_carried_or_wore(self, before: str, after: str) -> None:
        """A friend brings a thing if the story still lacks one."""
        if len(self.things) < self.world.grammar.objects:
            self.fill(self.world.compile("carried {a_thing}" + after))
        else:
            self.fill(self.world.compile("wore {a_cloth}" + after))

    def choose_thing(self, things: list[Thing], before: str, after: str) -> Thing:
        """A thing which the state allows here, word for word as it was described."""
        telling = self.telling
        start = len(telling.words)
        if len(things) == 1:
            thing = things[0]
            for k, word in enumerate(thing.words):
                last = k == len(thing.words) - 1
                telling.recall(word, thing.rivals[k], COPY, "" if k else before, after if last else "")
        else:
            thing = things[telling.say_one_of([before + " ".join(t.words) + after for t in things], COPY)]
        if len(things) < len(self.things):
            telling.skills[start] = STATE
            allowed = {t.words[0] for t in things}
            rivals = [t.words[0] for t in self.things]
            telling.offer_span(start, start + 1, STATE, rivals, allowed, before, "")
        return thing

    def slot_held(self, before: str, after: str) -> None:
        own = [thing for thing in self.things if thing.holder == self.subject]
        self.held = self.choose_thing(own, before, after)

    def slot_taken(self, before: str, after: str) -> None:
        theirs = [thing for thing in self.things if thing.holder and thing.holder != self.subject]
        self.taken = self.choose_thing(theirs, before, after)

    def slot_lost(self, before: str, after: str) -> None:
        lost = [thing for thing in self.things if not thing.holder]
        self.held = self.choose_thing(lost, before, after)

    def slot_thing(self, before: str, after: str) -> None:
        self.held = self.choose_thing(self.things, before, after)

    def slot_left_at(self, before: str, after: str) -> None:
        self.put(self.world.places, before, after)

    def slot_hideout(self, before: str, after: str) -> None:
        self.put(self.world.hideouts, before, after)

    def put(self, places: DecisionTable, before: str, after: str) -> None:
        place = places.items[self.telling.say(places.dressed(before, after))]
        self.held.holder, self.held.place = None, place

    def slot_lies(self, before: str, after: str) -> None:
        self.telling.recall(self.held.place, self.world.where, STATE, before, after)
        self.held.holder = self.subject

    def slot_answer(self, before: str, after: str) -> None:
        """The state forces the answer that the addressee gives."""
        held = self.held
        holder = held.holder or ""
        answers = {name: f"{name} has it" for name in self.cast}
        answers[self.subject], answers[self.addressee] = "You have it yourself", "I have it here"
        lies = f"It is {held.place or self.world.where[0]}"
        self.telling.recall(answers.get(holder, lies), [*answers.values(), lies], STATE, before, after)

    def slot_outcome(self, before: str, after: str) -> None:
        """Where the first thing is in the end, which the moral depends on."""
        thing = self.held = self.things[0]
        phrase = f"the {' '.join(thing.words)}"
        lies = f"{phrase} was still {thing.place or self.world.where[0]}"
        outcomes = {name: f"{name} still had {phrase}" for name in self.cast}
        self.telling.recall(
            outcomes.get(thing.holder or "", lies), [*outcomes.values(), lies], STATE, before, after
        )

    # --- Counting ---

    def slot_first_count(self, before: str, after: str) -> None:
        self.count = 3 + self.telling.say_one_of(self.world.numbers[2:9], COUNTING)

    def slot_counted(self, before: str, after: str) -> None:
        many = self.counted[1]
        if self.counted_told:
            self.telling.recall(many, self.world.counted_table.items, COPY, before, after)
        else:
            index = self.telling.say(self.world.counted_table.dressed(before, after))
            self.counted = self.world.counted[index]
            self.counted_told = True

    def change(self, steps: Sequence[int], before: str, after: str) -> None:
        numbers = [before + self.world.numbers[abs(step) - 1] + after for step in steps]
        start = len(self.telling.words)
        self.count += steps[self.telling.say_one_of(numbers, COUNTING)]
        allowed = {self.world.numbers[abs(step) - 1] for step in steps}
        self.telling.offer(start, COUNTING, self.world.numbers, allowed, before, after)

    def slot_fewer(self, before: str, after: str) -> None:
        self.change(range(-1, -min(4, self.count), -1), before, after)

    def slot_more(self, before: str, after: str) -> None:
        self.change(range(2, MOST_ADDED + 1), before, after)

    def slot_now(self, before: str, after: str) -> None:
        self.telling.recall(self.world.numbers[self.count - 1], self.world.numbers, COUNTING, before, after)

    def slot_Remaining(self, before: str, after: str) -> None:
        number, one = self.world.numbers[self.count - 1], self.count == 1
        numbers = [other.capitalize() for other in self.world.numbers]
        self.telling.recall(number.capitalize(), numbers, COUNTING, before)
        nouns = [noun[0 if one else 1] for noun in self.world.counted]
        self.telling.recall(self.counted[0 if one else 1], nouns, COPY, "", after)

    def slot_were(self, before: str, after: str) -> None:
        self.telling.recall("was" if self.count == 1 else "were", ("was", "were"), SYNTAX, before, after)

    # --- Words that go with other words ---

    def slot_animal_verb(self, before: str, after: str) -> None:
        verbs = self.world.own_verbs[self.noun]
        self.telling.say(verbs.dressed(before, after))
        start = len(self.telling.words) - 1
        self.telling.offer(start, COLLOCATION, self.world.lexicon.animal_verbs, verbs.known, before, after)

    def slot_deed(self, before: str, after: str) -> None:
        table = self.world.deed_table
        start = len(self.telling.words) + 1
        verb = table.items[self.telling.say(table.dressed(before, after))].split()[0]
        self.telling.offer(start, COLLOCATION, self.world.deed_objects, self.world.deeds[verb], "", after)

    def slot_who_that(self, before: str, after: str) -> None:
        """A subject, its relative clauses, and a verb that agrees with the subject across them."""
        telling, world = self.telling, self.world
        plural = telling.say(world.creatures) % 2
        truth, other = ("were", "was") if plural else ("was", "were")
        telling.force("who", SYNTAX)
        for depth in range(1, MAX_DEPTH + 1):
            telling.say(world.chases)
            telling.force("the", SYNTAX)
            telling.say(world.beasts)
            if depth == MAX_DEPTH:
                telling.force(truth, SYNTAX)
            elif telling.say(world.go_on[plural]) == 1:
                continue
            telling.offer(len(telling.words) - 1, SYNTAX, (truth, other), (truth,))
            break
        telling.say(world.feelings.dressed(before, after))

    # --- Facts and the moral ---

    def slot_fact(self, before: str, after: str, attribute: str) -> None:
        self.tell_fact(attribute, self.world.values[attribute], before, after)

    def slot_a_fact(self, before: str, after: str, attribute: str) -> None:
        self.tell_fact(attribute, self.world.values_with_article[attribute], before, after)

    def tell_fact(self, attribute: str, values: tuple[str, ...], before: str, after: str) -> None:
        key = self.town if attribute in self.world.town_attributes else self.subject
        truth = self.world.fact(key, attribute, values)
        self.telling.recall(truth, values, FACTS, before, after)

    def slot_moral(self, before: str, after: str) -> None:
        """A function of the trait in the first sentence and of the outcome."""
        thing = self.things[0]
        outcome = "lost" if not thing.holder else "kept" if thing.holder == self.cast[0] else "given"
        truth = self.world.moral_of(self.trait, outcome)
        self.telling.recall(truth, self.world.morals, MORAL, before, after)
