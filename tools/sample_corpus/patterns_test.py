"""Sentence patterns of the test split; training and development never see them."""

TEXT = """
# politics head
- {D} [deputies|rebels] turn on {A}
- {A} [sworn in|re-elected] as {X} [governor|mayor]
- {G} chief resigns
# politics open
- Thousands of people marched through {X} on <day> to demand that {A} ,
  [premier|ruler] of {N} since <year> , step aside .
- A rebel group inside the {P} wants {A} replaced by {B} before <month> , party
  sources in {X} said .
- In a [speech|broadcast] from {X} late on <day> , Chancellor {A.full} urged {N.pl} to
  support the {L} .
- {A} [quit|resigned] as chairman of the {P} on <day> , <d> months after the party
  lost power in {N} .
# politics body
- Support for the {D} has slipped from <pct> to <pct> percent since <month> .
- It was {B} who first proposed the law .
- Asked about {D} , {A} smiled and walked away .
- Both {P} and {D} [oppose/VBP|back/VBP] joining {M} in the pact .
- The {G} has yet to publish the list .
- Not everyone in {Y} agrees .
- " What {A} wants , {A} gets , " complained {B} .
- Court rulings and bank scandals have hurt the government .
- {N} borrows more than {M} or {N*} .
- {A.His} rivals include {B*} , {B*} and former general {B*.full} .
- Analysts see {B} as a possible successor .
- State radio in {Y} quoted {A.last} as saying the {G} had acted alone .
# business head
- {Q} shares soar on {O} bid
- {N} exports hit by strike at {O}
- {O} names {A} president
# business open
- Insurer {O} and rival {Q} are close to a merger worth about <money> , the {S}
  reported from {Y} on <day> .
- Workers at {O} 's plant in {X} walked out on <day> , demanding a pay rise of <pct>
  percent .
- {A} is to head {O} 's new {N.adj} unit , taking over from {B} in <month> .
- Creditors of {O} , among them {Q} and the {G} , meet in {X} on <day> .
# business body
- {Q} and {O} declined comment .
- Turnover in {N} came to <money> , against <money> in <year> .
- According to {A} , the cost of fuel is the main worry .
- Rating agency {Q} put {O} on watch .
- {O} gained <n> points to <big> .
- Cash is short , and winter sales were poor .
- {B} sold <big> of {B.his} shares to {Q} .
- Outside {N} , {O} owns mines in {M} and ferries on the {R} .
- Traders in {Y} expect {N.adj} wheat to stay cheap .
- Will prices rise again in May ?
- {A} made {B} finance director of {O} and moved to {Y} .
- The strike cost {O} <money> , said {A} , who has run the firm since <year> .
# football head
- {V} crash out of {E}
- {A} double sinks {V}
- {T} boss blasts {A}
# football open
- A goal by {A} <n> minutes from time gave {T} a <win> victory over {V} in the {E} .
- Leaders {T} lost ground in the {E} when they went down <win> to {V} at {H} on <day> .
- {N.adj} side {T} have agreed to pay <fee> for {V} forward {A} .
# football body
- {B} twice went close for {V} .
- Only a fine save by {C} kept {V} in the game .
- {A} , on loan from {T*} , limped off after {B} 's tackle .
- After {V} equalised through {B} , {T} pushed forward .
- {T} 's next match is against {T*} in {T.loc} .
- Manager {A*.full} praised {A} and said {T} could win the {E} .
- {A} is the {N.adj} league 's top scorer with <n> goals .
- {V} struck back when {B} beat {C} from <n> metres .
- Fans of {T} threw bottles at {V} buses on the way home to {V.loc} .
- West and east stands were full .
- {T} have signed {A*} and {A*} from {N} 's {T*} .
# racing head
- {B} [pips|outlasts] {A} in {X} thriller
- injured {A} to skip {E}
# racing open
- {A} took the {E} title for {N} on <day> , with {B} of {M} second and {C} third .
- World champion {A.full} crashed in practice for the {E} and will not race in {X} on
  <day> .
- {B} , a <n>-year-old qualifier from {Y} , sent {A} of {N} out of the {E} in {X} on
  <day> .
# racing body
- {A} , coached by {C.full} , had not lost since <month> .
- {M.adj} number one {B} served badly and {A} took the set <set> .
- For {B} , it was a second win in {Y} this year .
- Cloud over {J} held up play in {X} .
- " {C} is the one to watch , " said {B} .
- {N} also won the relay , ahead of {M} and {N*} .
- {A.He} will now miss the {E*} in {M} .
# results head
- {N} cup draw
- {E} at a glance
# results open
- Draw for the [second|third] round of the {E} , to be played in <month> :
- {E} table ( played , points ) :
- {N.adj} championship scores from {X} :
# results body
- {T*} <d> {A*.last} <n> {T*} <d>
- {N*} <d> {N*} <d> ( halftime <score> )
- {T*} {T*} <score>
- {T*} <n> <n>
- {N*} {N*} {A*.last} <time>
- <rank>. {N*} ( {A*.last} , {A*.last} , {A*.last} , {A*.last} ) <time>
- {A*.init} , {N*} , <n> <n> <n>
- {N*} {N*} <score> <score>
- {T*} or {T*} at home to {T*}
- Retired : {A*.full} ( {N*} ) , {A*.full} ( {N*} )
- {A*.last} b {A*.last} <n>
- {A*.full} {A*.last} <set> <set>
# disaster head
- blast rips through {X} [mill|market]
- {R} floods force <big> from homes
# disaster open
- An explosion tore through a {O} warehouse in {X} on <day> , leaving <n> workers dead
  or hurt .
- Snow cut off {X} , {Y} and dozens of villages in {J} on <day> , the {F} reported .
- Fire crews from {X} battled all night on <day> to save {H} .
# disaster body
- Survivors were flown to {Y} .
- {A} , who commands the {N.adj} garrison in {Y} , said boats were needed .
- Neither {N} nor {M} had given any warning .
- {B} lost everything .
- Days of rain had swollen the {R} .
- " It came down the hill like a train , " {A} recalled .
- {O} has promised <money> to families in {X} and {Y} .
- {M.adj} divers joined the search on <day> .
- Battle lines were drawn over who should pay .
- Farther north , {Y} and {X*} escaped damage .
- Reporters reached {X} by way of {Y} after {B} lent them a boat .
# court head
- {O} [clerk|director] {A} walks free
- {A} [murder|bribery] case moved to {X}
# court open
- A jury in {X} on <day> cleared {A} of selling secrets from {O} to {Q} .
- {G} prosecutors want {A} , founder of {O} , sent back to {N} from {M} to face trial .
- Two men accused of robbing the {X} branch of {O} appeared before Magistrate {B.full}
  on <day> .
# court body
- {B} ordered {A} to be held until <month> .
- Neither {A} nor {O} would comment on the verdict .
- {C} , for the defence , called the case against {A} a farce .
- According to the charges , {A} hid <money> in {N.adj} accounts .
- The knife was found in {Y} , near {H} .
- {A} could get <n> years .
- Witnesses from {M} gave evidence by telephone .
- " I trusted {B} , " {A} wept .
- The family of {A*} sat in the front row .
- {O} is suing {Q} over the same papers .
# science head
- {U} team grows skin in [lab|dish]
- {I} reaches orbit
# science open
- Bones found near {J} in {N} are <big> years old , {A} of the {U} told a meeting in
  {X} .
- Astronomers using the {I} telescope have seen a [star|planet] die , according to {A}
  and {B} of the {U} .
# science body
- {B} warned against hasty conclusions .
- Earlier work at the {U} by {C*.full} pointed the same way .
- Similar bones have turned up in {M} and on {J} .
- The {G} gave {A} <fee> to go on .
- A second team , from {Y} , is checking the figures .
- Summer heat spoiled half the samples .
- {A} compared {N.pl} with {M.pl} who eat more fish .
- {O} , maker of {I} , paid for the trial .
# culture head
- {A} novel {W} banned in {N}
- crowds mourn {A} in {X}
# culture open
- Thieves stole a painting by {A} from {H} in {X} on <day> .
- " {W} " , the new play by {A} , drew boos at {H} in {X} .
- {N.adj} director {A.full} has begun shooting " {W} " in {X} with {B} and {C} .
# culture body
- {B} takes the part first offered to {C} .
- {W} will be shown in {M} next spring .
- {A} once called {Y} the saddest city in {N} .
- The {M.adj} press loved it .
- {O} refused to pay for it before {Z} .
- As a child {C} sold papers outside {H} .
- Strange things happen in the second act .
- The prize went to {B*.full} for " {W*} " .
# diplomacy head
- {M} snubs {N} over {L}
- {A} , {B} meet in {X}
# diplomacy open
- {A} of {N} and {B} of {M} opened two days of talks in {X} on <day> on the future of
  the {R} .
- {M} closed its embassy in {X} on <day> and told {N.pl} to leave the country .
# diplomacy body
- A {M.adj} warship was seen off {Y} during {Z} .
- {B} said the {L} had served {N} badly .
- Relations soured when {C} , then envoy in {Y} , insulted {B} .
- The row could spoil {N*} 's plans to join the {L} .
- Farmers around {J} sell most of their fruit to {M} .
- " {N} can wait , " {B} said .
- {A} goes next to {Y} .
- Aid from {M} paid for schools in {Y} and a port on the {R} .
# local head
- {O} drops {X} [mine|shop] plan
- {A} saves dog from {R}
# local open
- A row over parking at {H} has split {X} , where {A} and {B} sit on the {X.council} .
- {A} of {X} has won <fee> and plans to spend it on a boat called {I} .
# local body
- Shopkeepers blame {O} .
- Buses to {Y} leave from {H} .
- {B} , landlord of the old inn , blamed {A} .
- The {X.council} borrowed <fee> from {Q} .
- {C*.given} and {C*.given} , the twins , start school in {Y} .
- Sale of the field will go ahead in August .
- {A} drove {C} to {Y} by way of {J} .
- Join the choir , said {B} , and see {N} .
# any tail
- , the {X} reporter of {S} wrote on <day>
- , {A} was quoted by {S} as saying
- , as expected
- , friends of {B} told {S} television in {Y}
- , much as in <year>
- , witnesses in {Y} told {S}
- , which surprised few in {M}
- , if the {S} is to be believed
- , just days before {Z}
"""
