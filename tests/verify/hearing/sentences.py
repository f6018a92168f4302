"""What the callers of the long checks say: different sentences, each with the place where one may pause to think.

The pause (|) stands before a word that is looked for, behind a preposition or a conjunction, or between two clauses, of
which the first can be complete by itself: those are the hard ones.
"""

SENTENCES = tuple(
    line.strip()
    for line in """
    I would like to book a table for four people | on Friday evening at about seven.
    Could you tell me how long it takes | to drive from London to Manchester?
    Please tell me about the | capital of France and its long history.
    What is the best way to learn a new language | when you have very little time?
    My name is Robert and I am calling about | the invoice that you sent me last week.
    Can you explain why the sky is blue | and why the sunset looks red?
    I think the meeting was moved to | Thursday afternoon in the large conference room.
    How many people live in the city of | Barcelona and in the villages around it?
    Do you know whether the museum is open | on public holidays and on Sundays?
    I bought a pair of shoes from your store | and one of them has a broken heel.
    What should I cook tonight if I only have | potatoes, onions, eggs and some cheese?
    Remind me to call my sister | when I get home from the office.
    Who was the first person to walk on the moon | and what did he say?
    The train to Edinburgh leaves from | platform nine in about twenty minutes.
    I need to change my flight because | my mother is in the hospital.
    Which of these two phones has the better camera | and the longer battery life?
    Tell me a short story about a dog | who lost his way in the forest.
    What happens to the water in a lake | when the temperature drops below freezing?
    I was wondering if you could help me | with a problem on my computer.
    We are planning a trip to the mountains | and we need a place to stay.
    How do bees find their way back | to the hive after a long flight?
    Could you please repeat the last part | because I did not hear it very well?
    The doctor told me to take the medicine | twice a day after every meal.
    Is there a direct bus from the airport | to the center of the town?
    My garden is full of weeds and I want to know | how to get rid of them.
    What is the difference between | a crocodile and an alligator, in simple words?
    I forgot the password of my account | and the email with the link never arrived.
    Why do cats always land on their feet | when they fall from a high place?
    Please send the package to my new address | in the north of the country.
    If I mix blue paint with yellow paint | what color am I going to get?
    The children want to know how a rainbow | is made and where it ends.
    How much sugar and how much butter | do I need for a chocolate cake?
    I have an appointment with the dentist | but I would like to move it.
    Can you recommend a good book about | the history of the ancient Romans?
    When the power went out last night | all the food in the freezer was ruined.
    What are the three most important things | that I should know before I buy a house?
    My friend says that goldfish have | a very short memory, is that true?
    I am looking for a present for my father | who likes fishing and old music.
    How far away is the nearest star | and how long would it take to get there?
    There is a strange noise in my car | whenever I turn the wheel to the left.
    Would you rather live near the ocean | or somewhere high up in the mountains?
    Could you check if my order | has already been shipped to me?
    The last time I visited my grandmother | she taught me how to bake bread.
    What does it mean when the light | on the washing machine keeps blinking?
    I heard that drinking coffee late in the day | makes it harder to fall asleep.
    Please turn down the heating in the kitchen | and open the window in the bedroom.
    Why does the moon look bigger | when it is close to the horizon?
    I need a recipe for soup that | does not have any milk or cream in it.
    How did people send messages over long distances | before the telephone was invented?
    Our neighbor has a parrot that can | whistle the national anthem from start to end.
    What time does the pharmacy on the corner | close on Saturday evening?
    I would like to return this jacket because | the sleeves are far too long for me.
    Can you tell me which river flows through | Paris and where it reaches the sea?
    It has been raining for three days | and the cellar is full of water.
    Is it true that lightning never strikes | the same place more than one time?
    My daughter is learning to play the violin | and she practices every single morning.
    How can I remove a red wine stain | from a white cotton shirt?
    The bridge was closed for repairs | so we had to take the ferry instead.
    Which countries have a border with | Germany on the eastern side of the map?
    I want to save some money every month | but I never know where to begin.
    What kind of tree has leaves that | turn bright orange in the autumn?
    Please help me write a letter to | my landlord about the broken elevator.
    Do plants grow faster when you | talk to them or play them music?
    The teacher asked us to read a chapter | about the discovery of penicillin.
    How does a refrigerator keep the food cold | even on the hottest days of summer?
    I left my umbrella on the bus | that goes from the station to the university.
    Could we talk about the holiday first | and about the work when we are done?
    What would happen to the earth | if the sun suddenly disappeared?
    My brother lives in Australia and | we only see each other at weddings.
    Is there anything I can do | about the mosquitoes in my apartment?
    The soup needs a little more salt | and maybe a few drops of lemon juice.
    Can an old dog still learn new tricks | or is that only true for puppies?
    """.strip().splitlines()
)
"""Each with one pause mark."""


def words(sentence: str) -> str:
    """The sentence as it is spoken without a pause."""
    return sentence.replace(" | ", " ")


def halves(sentence: str) -> tuple[str, str]:
    """What stands before the pause and behind it."""
    first, rest = sentence.split(" | ")
    return first, rest
