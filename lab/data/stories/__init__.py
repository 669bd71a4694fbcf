"""Short stories from a grammar that knows the exact probability of every text: the corpus `data=stories`.

From the data to the text, each module reads only those above it:

    words.txt           the words by class, most frequent first
    names.txt           names of children and towns, and the syllables of made-up ones
    deeds.txt           what people did: verbs and the objects that go with them
    facts.json          what can be known of a person or a town, and the sentence that tells it
    sentences.json      the templates of all other sentences: openings, events, endings, morals
    lexicon.py          the lists as one record; articles and plurals
    sentences.py        the templates as one record
    decision_table.py   what can come next, how likely, and the bits of each word
    telling.py          the text so far: its words, bits, skills and forced choices
    template.py         a template as steps: literal words, decisions, described nouns, slots
    world.py            what all stories of a grammar share: tables, compiled sentences, facts
    slots.py            what the state of a story allows or forces in a slot
    plot.py             what happens in a story, in which order
    language.py         the same story in made-up words
    generator.py        stories by number, back from their text, and the recipe's version
    tellers.py          the same stories told on all cores

A change of any word, order or probability here is another recipe: `RECIPE_VERSION` in generator.py.
"""
