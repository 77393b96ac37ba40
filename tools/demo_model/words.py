"""Word lists that the task generators draw from. Plain data, all ASCII."""


def _split(text):
    words = text.split()
    assert len(words) == len(set(words)), "duplicate word in a list"
    return words


NAMES = _split("""
    Adam Agnes Alan Alice Amir Anna Arthur Bella Ben Bianca Boris Bruno Carl Carla Cora Clara Daniel Daisy David
    Diana  Dora Eddie Edith Elena Eli Ella Emil Emma Eric Esther Eva Felix Fiona Frank Frida George Gina Grace Greta
    Gustav Hana  Harry Hassan Hazel Helen Henry Hugo Ida Igor Ines Iris Ivan Jack Jana Jasper Jenny Joan Jonas Julia
    Kai Karen Karl  Kate Kevin Kira Lara Laura Leah Leo Lily Lina Louis Lucy Luke Magda Marco Maria Mark Martha Mary
    Max Maya Mia Mila  Milo Mona Nadia Nina Noah Nora Olga Oliver Omar Oscar Otto Paul Paula Peter Petra Philip
    Quinn Rachel Ralph Rita Robin  Rosa Ruby Ruth Sam Sara Selma Simon Sofia Sonia Stefan Susan Tara Theo Thomas Tim
    Tina Toby Tom Uma Vera Victor Vito  Wanda Walter Will Xenia Yara Yusuf Zara Zoe
""")

CITIES = _split("""
    Amsterdam Athens Bergen Berlin Bern Boston Bremen Brussels Budapest Cairo Chicago Copenhagen Dallas Delhi Denver
    Dresden Dublin Florence Geneva Genoa Hamburg Hanoi Helsinki Istanbul Kyoto Lagos Lima Lisbon London Lyon Madrid
    Malmo  Miami Milan Montreal Moscow Munich Nairobi Naples Nice Osaka Oslo Paris Perth Porto Prague Quito Riga
    Rome Seattle  Seoul Seville Sofia Stockholm Sydney Tallinn Tokyo Toronto Turin Utrecht Venice Vienna Vilnius
    Warsaw Zagreb Zurich
""")

COLOURS = _split("red blue green yellow orange purple pink brown black white grey gold silver violet teal")

JOBS = _split("""
    baker barber builder butcher carpenter chemist clerk coach cook dancer dentist doctor driver farmer fisher
    gardener  guard hunter judge lawyer librarian mechanic miller miner musician nurse painter pilot plumber poet
    potter reporter  sailor singer smith soldier tailor teacher waiter writer
""")

FOODS = _split("""
    bread cheese soup rice pasta salad cake honey pizza beans fish noodles pancakes porridge apples pears grapes
    cherries  carrots potatoes tomatoes mushrooms walnuts yoghurt chocolate
""")

ANIMALS = _split("""
    bear bee bird camel cat cow crab crow deer dog donkey duck dragon fox frog goat goose hare hedgehog hen horse
    lamb  lion lizard mole monkey moose mouse panda parrot pig pony rabbit rat raven seal sheep snail snake spider
    squirrel swan tiger turtle whale wolf zebra
""")

PLACES = _split("""
    attic barn basement bathroom bedroom cabin cellar chapel classroom cupboard drawer garage garden hall kitchen
    library  lobby office pantry park porch school shed shop stable station studio tower van workshop
""")

OBJECTS = _split("""
    apple bag ball banana basket bell blanket book bottle bowl box brush bucket button camera candle card chain
    chair clock coat coin  comb crown cup desk doll drum fan flag flute fork glass glove guitar hammer hat helmet
    jacket jar kettle key kite knife  ladder lamp lemon letter map mirror mug needle net notebook oven paddle pan
    pen pencil phone piano pillow pipe plate plum pot  purse radio ring rope ruler saddle saw scarf shield shirt
    shoe shovel sofa spoon stamp stove sword table tent ticket  torch towel toy tray umbrella vase violin wallet
    watch wheel whistle
""")

NATURE = _split("""
    autumn beach bridge bush canyon cave cliff cloud coast corner creek dawn desert dust earth evening field fire
    flame  flower fog forest frost grass hill ice island jungle lake leaf light meadow mist moon morning mountain
    mud night ocean  path planet pond rain river road rock root sand sea season shadow shore sky snow star stone
    storm stream summer sun  thunder tree valley village water wave wind winter wood
""")

ABSTRACT = _split("""
    answer age bank battle birth bill breath care cause chance change charm choice class cost country course crowd
    dance  day death debt depth dream duty effort end energy error event fact faith fame family fear feast figure
    friend game  gift goal group growth guest habit harm health heart help history home hope hour idea job joy kind
    king lady law length  level life limit line list luck member memory method mind minute model moment money month
    mood music name nation noise  number offer opinion order pain party peace people person picture plan point power
    price pride prince problem promise  proof queen question reason result rule sale scale science secret sense
    service shape side sign silence size skill  sleep smile song sound space speed spirit sport state step story
    street strength success sum taste team test theory  thing time title touch trade travel trip trouble truth turn
    value view visit voice vote war way wealth week weight  wish wonder word work world year youth
""")

ADJECTIVES = _split("""
    big bright broken calm cheap clean cold cracked dark deep dirty dry dusty fast fine flat fresh full heavy  hot
    large late light little long loud low narrow new plain quiet rough round sharp short simple slow small smooth
    soft square strange strong tall thick thin tiny warm wet wide wild wooden young
""")

ADVERBS = _split("slowly quickly quietly often rarely again suddenly together early late gently carefully")

# Everything that list tasks (copy, reverse, sort) choose from.
COMMON = sorted(set(COLOURS + JOBS + FOODS + ANIMALS + PLACES + OBJECTS + NATURE + ABSTRACT + ADJECTIVES))
