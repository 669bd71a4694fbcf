"""Which words do the stories use? The word lists of the generator in lab/data/stories/generator.py, most
frequent first.
"""

import functools
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split(","))


def digest(*parts: str) -> bytes:
    return hashlib.sha256("/".join(parts).encode()).digest()


@functools.cache
def ranked(items: tuple[str, ...], key: str) -> tuple[str, ...]:
    """A fixed order of `items` that looks random and depends on `key` alone."""
    return tuple(sorted(items, key=lambda item: digest(key, item)))


def _names(real: str, endings: str, *, middles: str, ends: str) -> tuple[str, ...]:
    """Real names, then made-up ones of two, three and four syllables: short names first, the rank is the
    frequency.
    """
    starts = _words("Be Da Fi Go Ha Jo Ka Lu Mi No Pe Ro Sa Ti Wu Ze")
    short = _join(starts, endings.split())
    long = _join(starts, middles.split(), ends.split())
    longer = _join(starts, middles.split(), middles.split(), ends.split())
    return tuple(dict.fromkeys((*_words(real), *short, *long, *longer)))


def _towns() -> tuple[str, ...]:
    starts = _words(
        "Oak Mill Green Stone Fox River Apple Hill Wind Brook Hazel Silver Rose Maple North Swan Honey Bell Frost Sand"
        " Clover Deer Long Bridge"
    )
    ends = _words("ford ton dale wood field bury well mouth haven stead")
    middles = tuple(start.lower() for start in starts)
    return (*_join(starts, ends), *_join(starts, middles, ends))


def _join(*parts: Sequence[str]) -> tuple[str, ...]:
    """All words of these parts, in an order that looks random."""
    return ranked(tuple("".join(word) for word in itertools.product(*parts)), "names")


@dataclass(frozen=True)
class Lexicon:
    """Word lists by class. Cut down, all texts of the grammar can be listed."""

    girls: tuple[str, ...] = _names(
        "Lily Anna Mia Emma Sara Lucy Ella Nora Grace Ruby Alice Clara Daisy Eva Holly Ivy Jane Julia Kate Laura Maria"
        " Molly Nina Olive Polly Rita Sophie Tess Vera Wendy Zoe Amy Bella Cora Dora Edith Flora Gina Hanna Iris",
        "la na ra mi vi li di ni za sha",
        middles="si ta le she ni ro",
        ends="na ssa lle mi ta ya ra",
    )
    boys: tuple[str, ...] = _names(
        "Tom Ben Max Sam Jack Tim Leo Finn Peter Oscar Adam Bruno Carl David Emil Felix George Henry Ian Jacob Karl"
        " Liam Mark Noah Otto Paul Ralph Simon Theo Victor Will Alex Bob Colin Dan Eric Frank Hugo Ivan John",
        "bo do ko lo mo no ro to ve ge",
        middles="ba de ki gu mo sta",
        ends="ro n x ld ck rt ng",
    )
    towns: tuple[str, ...] = _towns()
    traits: tuple[str, ...] = _words(
        "kind brave shy eager lazy clever proud patient greedy honest careless gentle stubborn curious selfish loyal"
        " jealous boastful thoughtful timid bossy generous forgetful impatient"
    )
    relatives: tuple[str, ...] = _words(
        "grandmother mother father brother sister uncle aunt grandfather cousin twin stepmother godfather"
    )
    homes: tuple[str, ...] = _words(
        "house cottage hut cabin farmhouse castle tower windmill lighthouse wagon houseboat bakery inn palace shed"
    )
    home_adjectives: tuple[str, ...] = _words(
        "little white old tall crooked blue wooden lonely cosy narrow brick thatched dusty sunny draughty humble grand"
        " ivy-covered pink"
    )
    weathers: tuple[str, ...] = _words(
        "sunny cold windy warm foggy rainy snowy cloudy stormy misty hot frosty chilly bright grey icy breezy mild damp"
        " hazy"
    )
    times: tuple[str, ...] = _words(
        "morning day afternoon evening Sunday Monday Friday Saturday Tuesday weekend"
    )
    places: tuple[str, ...] = _phrases(
        "in the garden, near the river, in the forest, on the hill, behind the barn, at the market, in the kitchen,"
        " under the bridge, on the beach, beside the lake, in the attic, near the school, inside the cave, on the farm,"
        " by the mill, at the harbor, in the meadow, behind the church, in the orchard, on the roof, by the well,"
        " near the station, in the cellar, at the bakery, by the pond, in the library, near the waterfall,"
        " behind the stable, in the valley, on the pier, at the fair, in the courtyard, near the quarry,"
        " in the greenhouse, by the campfire, on the balcony, under the stairs, in the hallway, at the circus,"
        " near the museum, on the island, in the jungle, beside the canal, by the fountain, at the theatre,"
        " in the swamp, near the volcano, in the desert, at the zoo, behind the hospital, on the playground,"
        " in the vineyard, by the chimney, near the windowsill, in the pasture, at the bus stop, on the doorstep,"
        " by the shipyard, in the laundry, near the cliff"
    )
    hideouts: tuple[str, ...] = _phrases(
        "under a bucket, inside a hollow log, in a wooden box, behind a curtain, beneath a pillow, in an old boot,"
        " inside a teapot, under a rug, in a haystack, behind a bookcase, inside a drawer, in a flowerpot,"
        " under a mattress, in a nest, inside a pumpkin, behind a barrel, in a suitcase, under a doormat,"
        " inside a wardrobe, in a beehive, beneath a bench, inside a trunk, in a pocket, behind a hedge"
    )
    toys: tuple[str, ...] = _words(
        "ball kite doll drum puppet puzzle balloon whistle train yo-yo marble robot sled scooter trumpet teddy rattle"
        " boomerang hoop rocket bicycle domino skateboard slingshot windmill dollhouse checkerboard top raft harmonica"
        " tambourine accordion"
    )
    tools: tuple[str, ...] = _words(
        "key lamp rope spoon ladder broom hammer basket umbrella lantern map blanket bell pencil shovel kettle needle"
        " bottle compass brush comb candle jar rake saw bowl pan knife fork wheelbarrow telescope magnet mop saddle"
        " anchor notebook envelope calendar ruler scarf"
    )
    treasures: tuple[str, ...] = _words(
        "ring coin crown shell necklace feather pearl mirror medal statue diamond locket bracelet fossil crystal ruby"
        " clock brooch goblet chain amulet button ribbon seashell emerald thimble vase music-box horseshoe badge"
        " trophy figurine"
    )
    looks: tuple[str, ...] = _words(
        "tiny old big strange heavy pretty long broken new shiny odd small huge lovely dusty plain ugly smooth sturdy"
        " fancy crooked ancient rusty soft light wonderful round curved dirty fragile cheap magic square slim wide"
        " elegant faded sparkling chipped polished"
    )
    materials: tuple[str, ...] = _words(
        "golden red wooden blue silver green glass yellow copper striped purple iron orange paper black velvet stone"
        " leather white brass spotted crimson ivory tin woollen turquoise bronze checkered amber scarlet marble"
        " lavender bamboo porcelain violet plastic"
    )
    animals: tuple[str, ...] = _words(
        "cat dog fox bear rabbit duck owl goat frog hedgehog pony crow otter squirrel horse cow pig hen robin badger"
        " donkey lamb turtle swan beaver raccoon hamster lizard kitten puppy eagle parrot sparrow monkey elephant lion"
        " tiger giraffe zebra camel penguin seal whale dolphin crab snail spider beetle bee ant cricket butterfly moth"
        " peacock pigeon rooster raven stork heron panda koala kangaroo crocodile hippo rhino mole weasel ferret lynx"
        " leopard cheetah gorilla toad newt hawk falcon magpie"
    )
    animal_adjectives: tuple[str, ...] = _words(
        "little brown young sleepy fat hungry fluffy grumpy playful noisy quiet lame wet muddy thin fast slow spotty"
        " furry cheeky nervous busy wild friendly limping wrinkled sneaky chubby bony scruffy graceful clumsy drowsy"
        " scrawny bouncy"
    )
    animal_verbs: tuple[str, ...] = _words(
        "slept danced jumped hid rested waited played drank sang hopped snored ate swam yawned hunted rolled climbed"
        " dug stared trembled crawled grazed shivered purred growled sneezed stretched hummed limped wandered splashed"
        " sniffed scratched chattered wobbled crouched dozed"
    )
    chases: tuple[str, ...] = _words(
        "chased followed saw heard loved liked feared helped watched fed carried teased scared licked tickled pushed"
        " bit greeted pulled guarded trusted admired avoided bumped washed ignored visited fooled annoyed nudged"
    )
    people: tuple[str, ...] = _words(
        "farmer teacher baker sailor neighbor doctor painter singer miller hunter gardener tailor soldier king queen"
        " prince knight wizard pirate shepherd butcher driver postman dancer writer nurse judge pilot plumber clown"
        " carpenter blacksmith cobbler fiddler jeweler juggler beggar merchant potter weaver barber lawyer chef waiter"
        " mayor guard maid captain scout giant dwarf"
    )
    people_adjectives: tuple[str, ...] = _words(
        "young tall rich poor wise famous tired strict cheerful bald quiet fat old friendly bearded skinny polite rude"
        " handsome blind silly serious elderly stout modest deaf cunning jolly"
    )
    feelings: tuple[str, ...] = _words(
        "happy sad tired hungry glad angry worried sleepy thirsty lonely scared cold excited surprised bored cheerful"
        " sorry upset calm confused nervous pleased ashamed amazed dizzy cross gloomy hopeful puzzled grateful homesick"
        " relieved restless sick startled annoyed delighted anxious miserable content"
    )
    joys: tuple[str, ...] = _words(
        "smiled laughed jumped danced sang clapped cheered giggled grinned whistled hummed blushed shouted waved nodded"
        " bowed skipped twirled chuckled squealed beamed"
    )
    speech: tuple[str, ...] = _words(
        "said cried whispered called shouted replied answered sighed laughed muttered explained mumbled exclaimed"
        " promised groaned yelled begged gasped sobbed joked insisted"
    )
    skies: tuple[str, ...] = _words(
        "blue grey dark clear pink pale golden cloudy red starry orange purple black silver stormy white gloomy"
        " cloudless"
    )
    manners: tuple[str, ...] = _words(
        "happily quietly loudly slowly softly quickly gently sadly proudly merrily calmly suddenly carefully boldly nervously"
        " eagerly lazily politely gladly shyly secretly wildly sleepily patiently kindly clumsily gracefully swiftly"
        " cheerfully silently warmly neatly tenderly firmly hastily joyfully angrily anxiously hopefully sweetly wearily"
        " awkwardly briefly brightly crossly daintily dreamily excitedly gleefully lightly playfully tiredly"
    )
    adverbs: tuple[str, ...] = _words(
        "happily always still often simply usually once peacefully mostly gladly secretly only merely formerly"
        " comfortably modestly"
    )
    things_heard: tuple[str, ...] = _words(
        "thunder music bells laughter wind waves footsteps singing barking rain drums hooves whispers crickets"
        " hammering snoring applause trumpets chirping engines"
    )
    smells: tuple[str, ...] = _words(
        "roses smoke hay bread grass rain soap pine honey leather salt cinnamon mud mint garlic coffee onions paint"
        " lemons jasmine vanilla cheese"
    )
    plants: tuple[str, ...] = _words(
        "oak rose pine willow daisy tulip apple-tree birch lily fern maple ivy poppy bush elm sunflower cherry-tree"
        " cactus thistle violet orchid palm chestnut dandelion cedar nettle bluebell ash beech mushroom"
    )
    plant_adjectives: tuple[str, ...] = _words(
        "tall old green bare lonely blooming bent wild withered thorny leafy mossy fragrant crooked mighty wet dead"
        " rotten slender gigantic"
    )
    foods: tuple[str, ...] = _words(
        "soup bread cake rice honey cheese porridge noodles pancakes beans eggs jam pie pasta pudding pizza chocolate"
        " toast fish sausages dumplings salad waffles popcorn biscuits stew butter ham bacon yogurt custard muffins"
        " curry pretzels mustard oatmeal lentils potatoes spinach tofu"
    )
    fruits: tuple[str, ...] = _words(
        "apples plums pears cherries grapes bananas oranges peaches lemons figs melons berries dates mangoes apricots"
        " strawberries raspberries kiwis limes pineapples quinces coconuts"
    )
    drinks: tuple[str, ...] = _words(
        "milk tea cocoa lemonade water juice cider coffee broth ginger-ale punch nectar"
    )
    colors: tuple[str, ...] = _words(
        "red blue green yellow pink purple orange white brown black grey gold silver turquoise violet crimson beige"
        " scarlet indigo maroon"
    )
    games: tuple[str, ...] = _words(
        "tag chess hopscotch leapfrog cards marbles hide-and-seek football dominoes checkers tennis bowling darts golf"
        " hockey bingo charades skittles rounders cricket"
    )
    instruments: tuple[str, ...] = _words(
        "piano flute violin drum guitar harp trumpet banjo cello organ fiddle horn clarinet tuba lute bagpipe"
    )
    jobs: tuple[str, ...] = _words(
        "baker pilot doctor sailor teacher painter farmer singer dancer detective gardener vet clown explorer inventor"
        " astronaut acrobat librarian fireman magician diver cook tailor poet"
    )
    months: tuple[str, ...] = _words(
        "May June July April December August October March September January November February"
    )
    seasons: tuple[str, ...] = _words("summer spring autumn winter")
    days: tuple[str, ...] = _words("Sunday Saturday Friday Monday Wednesday Thursday Tuesday")
    subjects: tuple[str, ...] = _words(
        "reading drawing music history spelling cooking sewing swimming knitting counting gardening fishing dancing"
        " skating riding painting pottery sailing"
    )
    flowers: tuple[str, ...] = _words(
        "rose tulip daisy lily poppy violet sunflower orchid bluebell buttercup iris pansy daffodil snowdrop marigold"
        " carnation"
    )
    dreams: tuple[str, ...] = _words(
        "dragons pirates ghosts mermaids castles fairies robots elephants trains giants witches angels dinosaurs"
        " unicorns islands rockets monsters clouds wolves planets volcanoes snowmen"
    )
    clothes: tuple[str, ...] = _words(
        "scarf hat coat cap dress jacket cloak shirt sweater apron bow hood vest collar skirt jumper raincoat bonnet"
        " sash waistcoat shawl tunic robe bathrobe"
    )
    fabrics: tuple[str, ...] = _words(
        "red blue woollen green striped yellow velvet spotted black silk purple white leather orange checkered cotton pink"
        " knitted patched ragged flannel linen flowery fur"
    )
    counted: tuple[tuple[str, str], ...] = tuple(
        (word.split("/")[0], word.split("/")[1])
        for word in _words(
            "apple/apples nut/nuts egg/eggs plum/plums cookie/cookies pear/pears carrot/carrots sweet/sweets"
            " cherry/cherries bun/buns grape/grapes peach/peaches tart/tarts fig/figs walnut/walnuts radish/radishes"
            " turnip/turnips tomato/tomatoes cupcake/cupcakes lollipop/lollipops acorn/acorns pancake/pancakes"
        )
    )
    ripe: tuple[str, ...] = _words(
        "fresh sweet ripe small round tasty crunchy hard sour soft wrinkled delicious bitter raw salty sticky warm crisp"
        " frozen spicy"
    )
    numbers: tuple[str, ...] = _words("one two three four five six seven eight nine ten eleven twelve")
    deeds: tuple[str, ...] = tuple(
        f"{verb} {thing.replace('_', ' ')}"
        for line in (
            "baked: a_cake some_bread a_pie fresh_rolls gingerbread a_pizza scones brownies",
            "built: a_tower a_raft a_tent a_dam a_snowman a_fort a_sandcastle a_bonfire",
            "sang: a_song a_hymn a_lullaby a_ballad a_duet carols",
            "told: a_joke a_riddle a_secret a_fairy_tale ghost_stories a_fable",
            "painted: a_picture the_fence a_portrait the_door a_rainbow a_mural",
            "planted: a_tree some_seeds tulips potatoes a_hedge cabbages",
            "read: a_book a_poem the_newspaper a_letter an_atlas comics",
            "cooked: dinner some_soup spaghetti lunch a_stew chowder",
            "washed: the_dishes the_windows their_hands the_floor the_curtains socks",
            "climbed: a_tree a_mountain the_wall the_rocks a_rope a_fence",
            "chased: a_butterfly a_squirrel the_pigeons a_shadow bubbles the_geese",
            "picked: flowers berries mushrooms herbs daisies blackberries",
            "caught: a_fish a_frog fireflies a_cold snowflakes tadpoles",
            "drew: a_map a_face a_circle a_dinosaur a_treasure_map cartoons",
            "mended: a_chair the_roof a_net the_gate a_shoe the_clock",
            "watched: the_clouds a_parade the_stars the_boats a_puppet_show the_sunset",
            "played: tag football hide-and-seek a_trick the_flute chess",
            "swept: the_yard the_porch the_stairs the_chimney the_path the_barn",
            "fed: the_hens the_ducks the_pigs a_stray_cat the_goldfish the_horses",
            "counted: the_sheep the_steps the_ships their_fingers the_candles the_windows",
            "visited: a_museum the_zoo a_farm the_lighthouse a_friend the_dentist",
            "wrote: a_letter a_poem a_postcard a_list a_diary a_play",
            "gathered: firewood pebbles pinecones leaves chestnuts driftwood",
            "knitted: a_scarf mittens a_blanket a_sweater a_bonnet",
            "polished: the_silver their_boots the_mirror the_lamps the_table",
            "explored: a_cave the_attic an_island the_ruins a_tunnel the_woods",
            "crossed: the_bridge the_stream the_desert a_field the_street",
            "rowed: a_boat a_canoe across_the_lake to_the_island",
            "folded: paper_planes the_laundry napkins a_paper_hat blankets",
            "rang: the_bell the_alarm the_doorbell",
        )
        for verb, things in [line.split(": ")]
        for thing in things.split()
    )
    morals: tuple[str, ...] = _phrases(
        "share with others, take good care of things, ask for help, never give up, be gentle, tell the truth,"
        " listen to friends, wait for a turn, try new ways, think before acting, keep every promise, forgive mistakes,"
        " trust a friend, work hard, be thankful, speak up bravely, laugh at small troubles, say sorry first,"
        " look before leaping, value simple things, help without being asked, stay calm, welcome strangers,"
        " finish what was started"
    )
    person_facts: tuple[tuple[str, str], ...] = (
        ("food", "foods"),
        ("color", "colors"),
        ("game", "games"),
        ("fruit", "fruits"),
        ("drink", "drinks"),
        ("pastime", "subjects"),
        ("season", "seasons"),
        ("flower", "flowers"),
        ("instrument", "instruments"),
        ("month", "months"),
        ("smell", "smells"),
        ("sound", "things_heard"),
        ("number", "numbers"),
        ("weekday", "days"),
        ("job", "jobs"),
        ("dream", "dreams"),
    )
    town_facts: tuple[tuple[str, str], ...] = (
        ("weather", "weathers"),
        ("sky", "skies"),
        ("dish", "foods"),
        ("flag", "colors"),
        ("flower", "flowers"),
        ("sport", "games"),
        ("scent", "smells"),
        ("crop", "fruits"),
        ("craft", "subjects"),
        ("bird", "animals"),
    )


LEXICON = Lexicon()
