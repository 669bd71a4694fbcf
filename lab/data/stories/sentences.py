"""Which sentences tell a story? Templates: literal words, `[one|of|several]`, and `{slots}` that
lab/data/stories/plot.py fills.

A form has heads (between slashes) and a body. Each head is recognised by its own words, so the first words
of a sentence say which event it tells. A head that begins with a newline begins a paragraph.
"""

from dataclasses import dataclass

Form = tuple[str, str]
"""Heads, separated by slashes, and the body that follows any of them."""


@dataclass(frozen=True)
class Event:
    """A kind of sentence: how likely, in which state of the story it can be told, and its forms."""

    name: str
    weight: float
    needs: str
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Sentences:
    """All templates. Cut down, all texts of the grammar can be listed."""

    opening: Form = (
        "Once upon a time, there was/Long ago, there lived/In a quiet village, there lived/Not far from here, there was"
        "/There once was/In a far land, there lived/Many years ago, there was/This is the story of",
        "{a_trait} {child} named {name}.",
    )
    home: Form = (
        "Near/Not far from/Close to/Outside/A mile from/On the edge of/Just south of/Somewhere near",
        "{town}, {he} {often} lived with {his} {character} {relative} in {a_home}.",
    )
    town_facts: tuple[tuple[str, str], ...] = (
        ("weather", "The weather there was mostly {fact}."),
        ("sky", "Above the roofs the sky was often {fact}."),
        ("dish", "Every Sunday, people there ate {fact}."),
        ("flag", "A flag on the roof was {fact}."),
        ("flower", "On every windowsill there stood {a_fact}."),
        ("sport", "All the children there played {fact}."),
        ("scent", "Most days the air smelled of {fact}."),
        ("crop", "In the fields there grew {fact}."),
        ("craft", "Most people there were good at {fact}."),
        ("bird", "Above the gate was the picture of {a_fact}."),
    )
    person_facts: tuple[tuple[str, str], ...] = (
        ("food", "Each day, {he} ate {fact}."),
        ("color", "Usually, {he} dressed in {fact}."),
        ("game", "Most often, {he} played {fact}."),
        ("fruit", "All summer, {he} picked {fact}."),
        ("drink", "Mostly, {he} drank {fact}."),
        ("pastime", "As everyone knew, {he} loved {fact}."),
        ("season", "All year, {he} waited for {fact}."),
        ("flower", "On Sundays, {he} wore {a_fact}."),
        ("instrument", "For years, {he} had played the {fact}."),
        ("month", "Every year, {his} birthday was in {fact}."),
        ("smell", "Somehow, {he} smelled of {fact}."),
        ("sound", "More than anything, {he} enjoyed {fact}."),
        ("number", "Whatever happened, {he} counted to {fact}."),
        ("weekday", "Every week, {he} slept until noon on {fact}."),
        ("job", "One day, {he} wanted to become {a_fact}."),
        ("dream", "Almost every night, {he} dreamed of {fact}."),
    )
    find: Form = (
        "\nOne",
        "{weather} {time}, {he} [found|discovered|spotted|noticed|won] {a_thing} and {first_count} {ripe} {counted} {place}.",
    )
    scenery: tuple[Form, ...] = (
        ("Nearby, the/That day, the/Not far off, the/Across the road, the", "{who_that}."),
        ("Beneath/Next to/In the shade of", "{a_plant}, {a_animal} {animal_verb} {manner}."),
        ("Outside,/Across the field,/On the other side,", "{a_person} in {a_cloth} {deed}."),
        ("Meanwhile,/Further on,/Beyond the trees,", "{a_animal} {manner} {chase} {a_animal}."),
        ("The sky was/Above them the sky was/Over the hills the sky was", "{sky}, and {a_person} {deed}."),
        (
            "From afar came/Out of the dark came",
            "[faint|loud|soft|strange] {heard}, and {a_animal} {animal_verb} {manner}.",
        ),
        ("It was a little/It was rather/It was quite", "{weather}, so {a_person} {manner} {deed}."),
        ("The air smelled of/The wind smelled of", "{smell}, and {a_animal} {animal_verb} {place}."),
    )
    events: tuple[Event, ...] = (
        Event(
            "meet",
            2.5,
            "stranger",
            (
                (
                    "On the path,/At the crossroads,/At breakfast,/A little later,/Behind a fence,"
                    "/On the way home,/The next day,/In front of a shop,/Near the stream,/Around noon,",
                    "{hero} [met|saw|noticed|heard] {a_animal} named {friend}, who {manner} {carried_or_wore}.",
                ),
            ),
        ),
        Event(
            "bring",
            3.0,
            "unseen",
            (
                (
                    "In a corner,/Under a leaf,/Inside a barrel,/Through a window,/At the back door,/In the mail,"
                    "/Among the weeds,/Beside a stone,/Out of nowhere,/On a shelf,",
                    "{person} [found|discovered|noticed|spotted] {a_thing}.",
                ),
            ),
        ),
        Event(
            "give",
            3.0,
            "held",
            (
                (
                    "With a smile,/To be nice,/As a present,/Without a word,/A moment later,/Very softly,/On the way,"
                    "/Just for fun,/As a thank-you,/In the shade,",
                    "{holder} {manner} [gave|handed|passed|offered|brought] the {held} to {other}.",
                ),
                (
                    '"You may have this,"/"Here, take it,"/"This is for you,"/"Keep it safe,"/"Catch!"/"Surprise!"',
                    "{speech} {holder}, [giving|handing|passing|tossing] the {held} to {other}.",
                ),
            ),
        ),
        Event(
            "take",
            2.5,
            "held",
            (
                (
                    "All at once,/When nobody looked,/With quick fingers,/Without asking,/Like a thief,/For a while,"
                    "/In a hurry,/As a joke,/Feeling bold,/Before long,",
                    "{taker} {manner} [took|grabbed|borrowed|snatched] the {taken} from {owner}.",
                ),
            ),
        ),
        Event(
            "swap",
            2.5,
            "two holders",
            (
                (
                    "Later on,/For a change,/After some talk,/As good friends do,/By agreement,/After lunch,/Fair and square,"
                    "/With a handshake,/Under the trees,/In the end,",
                    "{swapper} {manner} [traded|swapped|exchanged] the {held} for the {taken} of {owner}.",
                ),
            ),
        ),
        Event(
            "lose",
            2.5,
            "held",
            (
                (
                    "By mistake,/On the way back,/While running,/Without noticing,/While playing,/Oh no!/Sadly,/In the dark,"
                    "/By bad luck,/Being tired,",
                    "{holder} {manner} [dropped|lost|left|forgot] the {held} {left_at}.",
                ),
            ),
        ),
        Event(
            "hide",
            2.0,
            "held",
            (
                (
                    "As a prank,/To tease the others,/For safety,/Because of the rain,/Very quietly,/On tiptoe,"
                    "/Behind everyone,/When it thundered,/Before a nap,/Looking around,",
                    "{holder} {manner} [hid|put|stuffed|tucked] the {held} {hideout}.",
                ),
            ),
        ),
        Event(
            "find",
            8.0,
            "lost",
            (
                (
                    "After a long search,/By good luck,/Looking everywhere,/Soon enough,/With sharp eyes,/At last,"
                    "/Thanks to a hint,/Following the footprints,/Hoping for luck,/Step by step,",
                    "{person} {manner} [found|discovered|spotted|noticed] the {lost} {lies}.",
                ),
            ),
        ),
        Event(
            "where",
            3.5,
            "thing",
            (
                (
                    "Suddenly,/A bit later,/Out of curiosity,/In the middle of a game,/Looking puzzled,/After some thought,"
                    "/Once again,/During a break,/In a loud voice,/With a frown,",
                    '{person} {manner} asked {other}, "[Where is|Who has|Have you seen] the {thing}?" "{answer}," {speech} {back}.',
                ),
            ),
        ),
        Event(
            "eat",
            3.0,
            "several",
            (
                (
                    "Feeling hungry,/At snack time,/Around four,/After a walk,/For lunch,/With both hands,/As a treat,"
                    "/While resting,/Out of greed,/Sitting down,",
                    "{person} {manner} [ate|lost|sold|wasted] {fewer} of the {counted}, which left {now}.",
                ),
            ),
        ),
        Event(
            "gain",
            3.0,
            "few",
            (
                (
                    "On a table,/Down the road,/In a box,/From a neighbor,/What luck!/Behind the house,/From an old lady,"
                    "/At a small shop,/With some help,/For good work,",
                    "{person} [got|found|bought|received] {more} more {counted}, which made {now} altogether.",
                ),
            ),
        ),
        Event(
            "how many",
            2.0,
            "counted",
            (
                (
                    "Later that day,/Opening the bag,/After counting twice,/With a grin,/Rubbing both eyes,/Looking hungry,"
                    "/All of a sudden,/Once more,/At the corner,/Being good at numbers,",
                    '{person} {manner} asked {other}, "How many {counted}?" "We have {now}," {speech} {back}.',
                ),
            ),
        ),
        Event(
            "play",
            2.0,
            "",
            (
                (
                    "Afterwards,/For an hour,/Until dusk,/Side by side,/In high spirits,/Hand in hand,/As a team,"
                    "/While the sun shone,/Laughing loudly,/That whole day,",
                    "the {feeling} friends {deed}, and {they} {manner} {deed}.",
                ),
            ),
        ),
        Event(
            "feel",
            1.5,
            "",
            (
                (
                    "After all that,/Deep inside,/For a minute,/To be honest,/Just then,/At that moment,/Strangely enough,"
                    "/As night came near,/No wonder,/From time to time,",
                    "{person} felt {feeling}, so {he} {joy} {manner}.",
                ),
            ),
        ),
        Event(
            "chat",
            2.0,
            "",
            (
                (
                    '"Look at/"I can see/"There is/"Watch out for/"I am afraid of/"I dreamed of/"Listen to/"I like/"Beware of'
                    '/"Come and see',
                    '{a_animal}!" {speech} {person}, and {he} {joy} {manner}.',
                ),
            ),
        ),
        Event("scenery", 4.0, "", ()),
    )
    ending: Form = (
        "At dusk,/That evening,/Before bedtime,/Finally,/At sunset,/Late at night,/By moonlight,/When darkness fell,"
        "/As night fell,/In the evening,",
        "{outcome}. {Remaining} {were} left. For supper, the {feeling} {same_child} had {fact:food} and {fact:drink}, then"
        " {manner} dreamed of {fact:dream}.",
    )
    moral: tuple[Form, ...] = (
        ("\nSo/\nIn this way,/\nThat is how", "{hero} learned to {moral}."),
        ("\nFrom then on,/\nAfter this day,/\nEver since,", "{hero} tried to {moral}."),
        ("\nNow/\nAt long last,", "{hero} knew that it is best to {moral}."),
    )


SENTENCES = Sentences()
