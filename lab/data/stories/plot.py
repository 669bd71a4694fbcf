"""What happens in a story? Its order, and what each event needs and changes."""

import math

from lab.data.stories.slots import MOST_ADDED, Slots
from lab.data.stories.world import Forms

LAST_EVENT = 155
"""No event begins after so many words: the longest one and the ending fit into 250."""


class Plot(Slots):
    """One story, told from its first sentence to its moral."""

    def tell(self) -> None:
        world = self.world
        self.say(world.opening)
        self.say(world.home)
        self.say(world.town_facts)
        self.say(world.find)
        while True:
            name = self.say(self.menu(), newline=self.told % 3 == 0)
            if name == "end":
                break
            self.told += 1
            self.follow(name)
        self.say(world.moral)

    def follow(self, name: str) -> None:
        """What an event changes, and what is told after it."""
        if name == "meet":
            self.say(self.world.person_facts)
            self.scenery(self.world.grammar.distance - (len(self.cast) > 2))
        elif name == "bring":
            self.scenery(self.world.grammar.distance)
        elif name == "give":
            self.held.holder = self.addressee
        elif name == "take":
            self.taken.holder = self.subject
        elif name == "swap":
            self.held.holder, self.taken.holder = self.taken.holder, self.held.holder

    def menu(self) -> Forms:
        """What may come next. A story has half the mean number of events, then a geometric number, at most
        twice the mean.
        """
        grammar = self.world.grammar
        if len(self.cast) == 1:
            legal = {"stranger"}
        else:
            holders = {thing.holder for thing in self.things if thing.holder}
            legal = {"", "thing", "counted"}
            legal |= {"stranger"} if len(self.cast) <= grammar.friends else set()
            legal |= {"unseen"} if len(self.things) < grammar.objects else set()
            legal |= {"held"} if holders else set()
            legal |= {"two holders"} if len(holders) > 1 else set()
            legal |= {"lost"} if any(not thing.holder for thing in self.things) else set()
            legal |= {"several"} if self.count > 1 else set()
            legal |= {"few"} if self.count + MOST_ADDED <= len(self.world.numbers) else set()
        least = math.ceil(grammar.events / 2)
        end = 0.0 if self.told < max(1, least) else 1 / (grammar.events - least + 1)
        if self.told >= round(2 * grammar.events) or len(self.telling.words) > LAST_EVENT:
            end = 1.0
        return self.world.menu(tuple(event.needs in legal for event in self.world.events), end)

    def say(self, forms: Forms, *, newline: bool = False) -> str:
        """Tells one of the sentences and returns the name of its form."""
        table = forms.table.dressed("\n", "") if newline else forms.table
        name, steps = forms.bodies[self.telling.say(table)]
        self.fill(steps)
        return name

    def scenery(self, count: int) -> None:
        for _ in range(count):
            if len(self.telling.words) <= LAST_EVENT:
                self.say(self.world.scenery)
