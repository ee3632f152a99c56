"""Sentence patterns of the development split alone; it also uses training's."""

TEXT = """
# politics head
- {A} [quits|joins] {P} in [tax|pensions] row
# politics open
- {P} leader {A.full} told supporters in {X} on <day> that the party was ready to
  govern {N} .
# politics body
- Under the {L} , {N} must hold a vote by <month> .
- {B} , a lawyer from {Y} , is expected to run for the {D} .
- Neither {A} nor {B} could be reached .
# business head
- {O} , {Q} in merger talks
# business open
- {Q} rejected a <money> offer from {O} on <day> , sending its shares down <pct>
  percent in {X} .
# business body
- {O} is to hire <n> workers in {Y} , {A} said .
- Dealers in {X} said the {N.adj} central bank had sold dollars .
- {A} , formerly of {Q} , takes over as finance director .
# football head
- late {A} goal saves {T}
# football open
- Champions {T} were held <draw> at home by {V} in the {E} on <day> .
# football body
- {B} replaced the injured {A} at halftime .
- {V} manager {C.full} blamed the pitch at {H} .
- {T} face {V} again in {X} in <month> .
# racing head
- {A} out of {E}
# racing open
- {M} 's {B.full} led the {E} after the first day in {X} , <d> strokes ahead of {A} of
  {N} .
# racing body
- {A} and {B} are level on points .
- Nobody from {N} has won in {Y} .
# results head
- {E} scores
# results open
- Scores from the {E} on <day> ( home team first ) :
# results body
- <rank>. {A*.full} , {N*} , <time>
- {T*} <score> {T*}
- {N*} {N*} {N*} qualified
- {T*} {T*} <n> <n>
# disaster head
- landslide cuts road to {X}
# disaster open
- A fire destroyed part of {H} in {X} on <day> , and {O} said the damage would cost
  <money> .
# disaster body
- Engineers from {O} were working to restore power in {Y} .
- {A} of the {F} said the danger was over .
# court head
- {A} trial opens in {X}
# court open
- Lawyers for {A} , the former head of {O} , asked the {G} on <day> to drop the
  charges against {A.him} .
# court body
- {A} met {B} twice in {Y} , the prosecutor said .
- {O} denied that it had paid {A} .
# science head
- {U} maps floor of {R}
# science open
- Doctors at the {U} have treated a rare blood disease with a drug made by {O} , {A}
  said on <day> .
# science body
- {B} said the results from {N} were different .
# culture head
- {A} to play {B} in {W}
# culture open
- The {N.adj} singer {A.full} will give <d> concerts at {H} in {X} in <month> .
# culture body
- {A} wrote " {W} " in {Y} .
# diplomacy head
- {N} accuses {M} over {R}
# diplomacy open
- {A} , the {N.adj} ambassador to {M} , left {X} on <day> after {M} said the {L} was
  dead .
# diplomacy body
- {M.adj} and {N.adj} officers met near the {R} .
- {B} said {M} would not wait .
# local head
- {O} opens shop in {X}
# local open
- Children in {X} raised <big> crowns for the hospital in {Y} , {A} of the {X.council}
  said .
# local body
- {A} moved to {Y} from {N} .
# any tail
- , said a report from {N}
- , {S} said on <day>
- , according to {B}
"""
