"""Name tables of the embedded corpus, one list per split.

Training draws from ``train`` only. The development and test splits draw from their own
list and sometimes from ``train``, so that some of their names occur in training. People
have a random given name and a random surname; :mod:`tools.sample_corpus.cast` composes
companies, clubs and institutions from parts.
"""

Table = dict[str, tuple[str, ...]]


def _table(train: str, dev: str, test: str) -> Table:
    """Builds a table from comma-separated names."""
    texts = {"train": train, "dev": dev, "test": test}
    return {
        split: tuple(" ".join(name.split()) for name in text.split(","))
        for split, text in texts.items()
    }


# Several given names are also months or common words: April, Will, Mark, Grace.
WOMEN = _table(
    """April, June, May, Grace, Hope, Rose, Anna, Clara, Ingrid, Maria, Lucia, Fatima,
    Aisha, Mei, Yuki, Sofia, Elena, Katarina, Nadia, Priya, Helen, Margaret, Ruth,
    Alice, Joan, Teresa, Camille, Birgit, Olga, Zainab, Chiara, Rosalind, Victoria,
    Charlotte, Georgia, Sydney, Anne-Marie, Beatriz, Hanna, Noor""",
    """Dawn, Faith, Ivy, Paola, Greta, Leila, Amara, Sigrid, Marta, Imogen, Yasmin,
    Adelaide""",
    """Summer, Pearl, Joy, Dolores, Freya, Ngozi, Svetlana, Harriet, Akiko, Renata,
    Bronwyn, Lakshmi, Petra, Odile, Florence, Mary-Jane, Tamsin, Ewa, Carolina,
    Chelsea""",
)
MEN = _table(
    """Will, Mark, Frank, Grant, Bill, Victor, Peter, Johan, Carlos, Ahmed, Kofi, Ravi,
    Hiroshi, Liam, Tomas, Andrei, Pavel, Nikos, Samuel, Daniel, George, Henry, Oscar,
    Emil, Marco, Luis, Jean-Luc, Hassan, Chidi, Viktor, Stefan, Patrick, Edward, Jordan,
    Austin, Lincoln, Washington, Milan, Arturo, Sven""",
    """Drew, Chase, Miles, Oleg, Pedro, Kenji, Bastian, Tariq, Gareth, Ludo, Anton,
    Preston""",
    """Jack, Rob, Dean, Pat, August, Reuben, Kwame, Dmitri, Giorgio, Karl-Heinz, Arjun,
    Callum, Thierry, Mustafa, Joaquim, Piotr, Ewan, Santiago, Chad, Bradford, Takeshi,
    Leopold""",
)
# Many surnames are also places or words: Preston, Kent, Reading, Bishop, Banks.
SURNAMES = _table(
    """Preston, Lincoln, Lancaster, Chester, Kent, Bradford, Florence, Reading, York,
    Hamilton, Wellington, Houston, Derby, Halifax, Marlow, Harwick, Oldbury, Ashby,
    Okafor, Lindqvist, Karlsen, Moreau, Tanaka, Novak, Petrov, Ivanova, Haddad, Mensah,
    Ferreira, Rossi, Bianchi, Schneider, Keller, Hoffmann, Nakamura, Singh, Rao,
    O'Connor, O'Dell, McBride, McAllister, van Houten, de Souza, al-Rashid, von Arnim,
    Baker, Bishop, Banks, Fields, Marsh, Waters, Rivers, Judge, King, Price, Young,
    Long, Pole, English, French, Holland, Hendricks, Whitlock, Thornton, Pemberton,
    Galloway, Abernathy, Castellano, Dvorak, Eriksen, Fontaine, Gruber, Horvath,
    Ibrahim, Jansen, Kowalski, Lebedev, Mbeki-Stone, Nilsson, Orlov, Papadakis, Quist,
    Ramirez, Santos, Ueda, Vargas, Wiśniewska, Yilmaz, Zamora, Hale-Rowan,
    Stone, Fox""",
    """Durham, Warwick, Carlisle, Truro, Winter, Church, Law, Costa, Lund, Osei, Demir,
    Bergström, Kapoor, Vidal, Mancini, O'Hara, McKenna, van Dijk, Sokolov, Ortega,
    Falk, Pryce-Jones, Tull, Vance, Hedley, Swindon, Wood""",
    """Lisle, Stafford, Burton, Bolton, Carrick, Stirling, Melrose, Boston, Orleans,
    Verona, Cork, Crewe, Ely, Sale, Wells, Battle, Rugby, Bury, Bank, Court, Hill,
    Cash, Field, West, Day, Summers, Strange, Major, Adeyemi, Bakker, Cisneros,
    D'Angelo, Egede, Fujimoto, Goldstein, Hruska, Iyer, Jovanovic, Kaplan, Larsson,
    MacLeod, McTavish, Nwosu, O'Leary, Pellegrino, Quiroga, Rasmussen, Stavros,
    Takahashi, Ulrich, van der Berg, de la Cruz, bin Yusuf, Wójcik, Yamada, Zeller,
    Barlow-Finch, Petrescu, Ghazali, Castle, Reed, Hawke, Coventry, Rook""",
)
CITIES = _table(
    """Preston, Lincoln, Lancaster, Chester, Bradford, Florence, Reading, York,
    Hamilton, Wellington, Houston, Derby, Halifax, Marlow, Harwick, Oldbury, Ashby,
    Milan, Turin, Oslo, Lisbon, Athens, Vienna, Geneva, Bergen, Krakow, Nairobi, Accra,
    Lagos, Cairo, Jakarta, Osaka, Lima, Santiago, Victoria, Charlotte, Georgia Bay,
    Sydney, Austin, Washington, Lakeside, Northgate, Easton, Westbrook, Millhaven,
    Port Arden, New Calder, St. Osyth, San Telmo, Fort Grayling, Stoke-on-Wey,
    Kirkby, Brask, Velden, Tarsa, Odrin, Karsk, Mirova, Almeida, Corvale""",
    """Durham, Warwick, Carlisle, Truro, Swindon, Adelaide, Ghent, Malmö, Tunis, Quito,
    Kingsferry, Port Selwyn, St. Brannoc, Lund, Costa Verde, Dunmere, Ostrava""",
    """Stafford, Burton, Bolton, Stirling, Melrose, Boston, Orleans, Verona, Cork,
    Crewe, Ely, Sale, Wells, Battle, Bury, Coventry, Chelsea, Carolina Beach, Seville,
    Gdansk, Tampere, Bruges, Zagreb, Mombasa, Dakar, Manila, Kyoto, Bogota, Hartsmere,
    Southwold Cross, Port Lorne, New Tavistock, St. Elwyn, San Marcial, Fort Kessel,
    Ashton-under-Fell, Penhallow, Grint, Solvang, Varna, Drovny, Ilmarsk, Quenby,
    Barrowdale, Thessaly Point""",
)
# name : adjective : people
COUNTRIES = _table(
    """Norway:Norwegian:Norwegians, Sweden:Swedish:Swedes, Germany:German:Germans,
    Italy:Italian:Italians, Japan:Japanese:Japanese, Kenya:Kenyan:Kenyans,
    Ghana:Ghanaian:Ghanaians, Brazil:Brazilian:Brazilians, Peru:Peruvian:Peruvians,
    Egypt:Egyptian:Egyptians, India:Indian:Indians, Jordan:Jordanian:Jordanians,
    Georgia:Georgian:Georgians, Chad:Chadian:Chadians, Holland:Dutch:Dutchmen,
    England:English:Englishmen, France:French:Frenchmen, Poland:Polish:Poles,
    Spain:Spanish:Spaniards, Estravia:Estravian:Estravians,
    Northern Estravia:Estravian:Estravians, Karsovia:Karsovian:Karsovians,
    Valdoria:Valdorian:Valdorians, South Marne:Marnese:Marnese""",
    """Portugal:Portuguese:Portuguese, Chile:Chilean:Chileans,
    Tunisia:Tunisian:Tunisians, Austria:Austrian:Austrians,
    Meridia:Meridian:Meridians, East Tolland:Tollander:Tollanders""",
    """Turkey:Turkish:Turks, Denmark:Danish:Danes, Greece:Greek:Greeks,
    Finland:Finnish:Finns, Hungary:Hungarian:Hungarians, Senegal:Senegalese:Senegalese,
    Colombia:Colombian:Colombians, Indonesia:Indonesian:Indonesians,
    Mali:Malian:Malians, Scotland:Scottish:Scots, New Zealand:Kiwi:Kiwis,
    Ostrania:Ostranian:Ostranians, Belmark:Belmarker:Belmarkers,
    Upper Sarvia:Sarvian:Sarvians, Torvania:Torvanian:Torvanians""",
)
# Rivers and seas, which take "the" in the patterns.
WATERS = _table(
    """Gulf of Tarsa, River Ash, North Sea, Baltic, Pacific, Tamar River, Danube, Bay of
    Corvale, Verran Canal, Odrin Strait""",
    """Strait of Lund, River Teme, Adriatic, Imber River""",
    """Sea of Drovny, River Kessel, Aegean, Atlantic, Lorne River, Rhine, Bay of Gulls,
    Quenby Canal, Ilmar Strait""",
)
# Lakes, mountains, islands and other places that take no article.
LANDS = _table(
    """Lake Verran, Mount Odrin, Calder Valley, Cape Solace, Black Fen, Gannet Island,
    Pine Ridge, Marr Island, Europe, Africa, Upper Brask, Harrow Wood""",
    """Lake Imber, Mount Hadley, Cape Dunmere, Teme Valley""",
    """Lake Quenby, Mount Ilmar, Elwyn Valley, Cape Thessaly, Long Marsh, Puffin Island,
    Wolf Ridge, Skerrin Island, Asia, Lower Grint, Raven Wood""",
)
VENUES = _table(
    """Hill Park, Victoria Hall, Station Road, Old Mill Lane, Grand Theatre,
    Queen 's Square, Riverside Stadium, Market Street, Saint Mark 's Cathedral""",
    """Castle Ground, Albert Dock, Priory Road, Gate Theatre""",
    """Meadow Lane, Empire Hall, Bishop 's Gate, Abbey Road, Olympia Theatre, Dock
    Street, Tower Stadium, Pier 9, Orchard Square""",
)
# Words that begin a company's name; many are common words on their own.
BRANDS = _table(
    """Beacon, Orchard, Lantern, Anchor, Summit, Northern, Pioneer, Cobalt, Harbour,
    Atlas, Granite, Falcon, Eastern, Meridian, Crown, Target, Apex, Delta, Unity,
    Vexor, Trimax, Zentra, Nordika, Quorum""",
    """Compass, Bridge, Signal, Juniper, Southern, Kelvar, Optima""",
    """Prism, Ember, Willow, Sterling, Western, Vanguard, Mosaic, Phoenix, Current,
    Bright, Central, Cargon, Lumex, Ostara, Virtex, Gap""",
)
TRADES = _table(
    """Grain Company, Steel Works, Motor Group, Insurance, Airways, Foods Ltd., Shipping
    Lines, Energy Corp., Textiles, Paper Mills, Telecom, Holdings, Mining Co., Oil &
    Gas, Pharmaceuticals Inc., 24""",
    """Cement Company, Rail Freight, Breweries, Software Inc.""",
    """Dairy Company, Copper Mines, Timber Group, Assurance, Aviation, Chemicals plc,
    Ferry Lines, Power Corp., Glass Works, Networks, Partners, Salt & Soda,
    Biotech Inc., 360""",
)
FAMILY_FIRMS = _table(
    "Bank, & Sons, Brothers, & Co., Motors, Group, Stores, Publishing",
    "Capital, & Daughters, Engineering",
    "Trust, & Partners, Industries, Logistics, Savings Bank, Press, Foundry",
)
AGENCIES = _table(
    """Ministry of Public Works, Ministry of Finance, Ministry of Health, Central Bank,
    Federal Court of Appeal, Supreme Court, Interior Ministry, Board of Trade, House of
    Deputies, Electoral Commission, Trade Commission, Department of Agriculture, Senate,
    Department of Roads and Bridges""",
    """Ministry of Labour, Office of Fair Rents, Harbour Authority, Land Registry""",
    """Ministry of Transport, Ministry of Education, Reserve Bank, Bureau of Statistics,
    High Court, Foreign Ministry, Council of State, Chamber of Representatives, Audit
    Commission, Forestry Service, Department of Fisheries, Congress,
    Ministry of Culture and Sport""",
)
RESCUERS = _table(
    """Coast Guard, National Weather Service, National Guard, Red Cross, Third Army,
    Northern Relief Fund""",
    """Port Authority, Air Rescue""",
    """Border Guard, Civil Defence Agency, Mountain Rescue, Meteorological Office,
    Seventh Fleet, Doctors for Peace""",
)
# Newspapers and news agencies, which take "the".
PRESS = _table(
    """Morning Ledger, Daily Lantern, Evening Mail, Harbour News, NPA, Weekly Mirror,
    Estravian News Agency, Channel 9""",
    """Daily Globe, Southern Echo, MRN""",
    """Sunday Courier, Morning Tribune, Westland Times, Radio 4 North, KTV, Daily Mark,
    Business Week Review, Belmark Press Agency""",
)
PARTIES = _table(
    """Green Alliance, Reform Party, People 's Reform Party, Liberal Union, National
    Front for Progress, Labour Federation, Farmers ' League, Civic Movement,
    Conservative Party""",
    """Democratic Centre, Workers ' Congress, Progress Party""",
    """Freedom Bloc, Socialist Party, People 's Action Union, Rural Alliance,
    United Front for Renewal, Teachers ' Federation, Christian Democrats, Justice
    Movement, Democratic Left""",
)
INSTITUTES = _table(
    """University of @, @ University Hospital, Institute of Marine Science,
    @ Medical School, Royal Observatory, College of @, National Museum,
    @ Institute of Technology, Centre for Polar Research""",
    """Academy of Sciences, @ Polytechnic, Institute of Soil Studies""",
    """Institute of Applied Physics, @ State University, Faculty of Medicine,
    Museum of Antiquities, @ General Hospital, Botanical Society, @ Academy,
    Laboratory for Ocean Chemistry, @ School of Economics""",
)
CLUB_SUFFIXES = _table(
    "United, City, Rovers, Town, Athletic, Wanderers, Dynamo",
    "Albion, Rangers",
    "Rovers, United, County, Thistle, Sporting, Wolves, Tigers",
)
SPORT_EVENTS = _table(
    """Coastal Cup, Harbour Open, World Cup, Northern League, Grand Prix, Champions
    Trophy, Lakeside Classic, Tour of Estravia, Winter Games, Masters, Super League,
    League Cup, @ Open, @ Marathon""",
    """Island Cup, Premier Shield, @ Masters""",
    """Valley Cup, Continental Shield, Southern League, Summer Games, Golden Gloves,
    Tour of the Uplands, Premier Division, Challenge Trophy, Four Rivers Regatta,
    @ Classic, @ Invitational, Olympics""",
)
WORKS = _table(
    """The Long Winter, Silent Harbour, A Handful of Rain, Night Train, Glass Mountain,
    The Baker 's Daughter, April Songs, Summer in Milan,
    Lantern Prize, Windows on the Sea, Iron Bridge""",
    """The Paper Boat, Dust and Honey, Letters to June""",
    """The Last Ferry, Blue Orchard, A Season of Ash, Midnight Express, Salt Road,
    The Judge 's Wife, Songs for Florence, Mirror Lake, Home Again,
    Ten Thousand Doors, Winter 's End""",
)
CRAFT = _table(
    "Falcon 7, Skyliner 400, Orion-2, Swallow, North Star, Seagull II, Odyssey",
    "Swift X, Kestrel 2",
    "Heron 3, Comet-9, Evening Star, Sea Lion, Argo IV, Lady Grace, Trailblazer 6",
)
ACCORDS = _table(
    """Harwick Accord, Treaty of Velden, Clean Rivers Act, Fair Wages Bill, Geneva
    Protocol, Free Ports Treaty, Victoria Declaration""",
    """Lund Convention, Housing Act""",
    """Varna Accord, Treaty of Stirling, Open Skies Act, Border Security Bill, Kyoto
    Charter, Fisheries Convention, Boston Agreement""",
)
HOLIDAYS = _table(
    """Easter, Christmas, Ramadan, Thanksgiving, Independence Day, Labour Day""",
    """Passover, Whitsun""",
    """Diwali, Lent, Republic Day, Hanukkah, Founders ' Day, Midsummer""",
)
