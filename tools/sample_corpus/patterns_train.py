"""Sentence patterns of the training split; the notation is in ``patterns.py``."""

TEXT = """
# politics head
- {A} wins [second|third|first] term in {X}
- {P} and {D} agree [budget|coalition|tax] deal
- {N} goes to polls as {A} trails
- {G} [denies|confirms] plan to [cut/VB|raise] fuel tax
# politics open
- {A} , [leader|head|chairman] of the {P} , said on <day> that {A.he} would
  [seek|accept] a [second|third] term as mayor of {X} .
- President {A.full} [dismissed|sacked] {A.his} finance minister , {B.full} , on <day>
  after a [long|bitter] dispute over the {N.adj} budget .
- The {P} chose {A} , a former [teacher|farmer|banker] from {X} , as its candidate for
  <month> 's election in {N} .
- {N} 's parliament voted on <day> to [reject|approve] the {L} , handing Prime
  Minister {A.full} a [rare|serious] defeat .
- Voters in {X} go to the polls on <day> to choose between {A} of the {P} and {B} of
  the {D} .
# politics body
- {A} said {A.he} would not [resign|step down] .
- " We have [listened|spoken] to the people of {X} and the answer is clear , " {A}
  told reporters .
- The {D} , led by {B} , accused the {G} of hiding the true cost of the plan .
- An opinion poll put the {P} on <pct> percent and the {D} on <pct> percent .
- {B} , who was born in {Y} , [entered|left/VBD] politics in <year> .
- Officials at the {G} declined to comment .
- The mark fell and shares were weaker as the news reached {X} .
- Will the coalition hold ?
- Many {N.pl} say they no longer trust the {P} .
- {A.He} has promised to [lower/VB|scrap] the fuel tax by <month> .
- " {B} keeps every promise , " said one [deputy|adviser|ally] in {Y} .
- Ministers from {N} , {M} and {N*} backed the {L} .
- The vote , delayed twice since <month> , will be watched closely in {M} .
- Turnout was <pct> percent , the {G} said .
- Reading the result was easy ; explaining it to the {P} will be harder .
# business head
- {O} to buy {Q} for <money>
- {O} profit [falls|rises] <pct> percent
- {N} central bank [cuts|holds] rates
- {A} to leave {O} in <month>
- [shares|stocks] slip in {X} after {O} warning
# business open
- {O} said on <day> it would buy {Q} for <money> in a deal that creates the largest
  [retailer|shipper|insurer] in {N} .
- Shares in {O} fell <pct> percent in {X} on <day> after the [company|group] warned of
  lower profits .
- {A} , chief executive of {O} , will [retire|leave] in <month> after <n> years at the
  [company|group] .
- {X.based} {O} posted a net profit of <money> for the [first|third] quarter , up
  <pct> percent from a year earlier .
- {O} and {Q} will build a <money> [plant|factory|warehouse] near {X} , the two
  companies said .
# business body
- {A} told [analysts|investors] that orders from {N} were [strong|weak] .
- " {O} is in good health , " {A} said in a statement .
- {Q} , which employs <big> people in {X} , gave no reason for the delay .
- The company 's shares closed <pct> percent [lower|higher] at <n> crowns .
- {B} , an analyst at {Q} , said the price was [fair|too high] .
- The {N.adj} [mark|crown|pound] was little changed against the dollar .
- Sales at {O} rose to <money> from <money> .
- The {G} must approve the deal .
- Chairman {B.full} owns <pct> percent of {O} .
- {O} shares ended at <n> , while {Q} lost <d> .
- Analysts had expected a profit of about <money> .
- {O} , which has shops in {Y} , {X*} and {X*} , expects a better {Z} .
- Target prices were cut twice in <month> .
- Trade between {N} and {M} was worth <money> last year , according to the {G} .
- {A} joined {O} from {Q} in <year> .
- Wheat exports from {N} to {M} fell by <big> tonnes , the {G} reported .
# football head
- {T} [beat|hold|stun] {V} in {E} final
- {A} [misses|fit for] {T} clash with {V}
- soccer - {T} sign {A}
- {T} sack coach {A}
# football open
- {T} beat {V} <win> in the {E} on <day> with two late goals from {A} .
- {T} drew <draw> with {V} in a [dull|lively] {E} match at {H} .
- [Striker|Midfielder|Goalkeeper] {A.full} has joined {T} from {V} for <fee> .
- {T} coach {A.full} was sacked on <day> after a <win> defeat at {V} .
- {N} meet {M} in {X} on <day> in the last qualifying match for the {E} .
# football body
- {A} headed the winner in the <nth> minute after a cross from {B} .
- {V} have not won in {T.loc} since <year> .
- " We were poor and {V} deserved it , " said coach {B.full} .
- The {N.adj} international has scored <n> goals for {T} this season .
- {B} was sent off for a foul on {A} .
- {T} are <d> points clear of {V} at the top of the {E} .
- Defender {C.full} will miss the trip to {V.loc} with a knee injury .
- A crowd of <big> saw {T} hit the post twice .
- {T} travel to {T*} next week and {V} host {T*} .
- {A} , a <n>-year-old from {X} , signed a three-year contract .
- It was the first defeat for {T} under {B} .
- {A} passed to {B} , whose shot beat the {V} goalkeeper .
- {T} : {A*} , {A*.last} , {A*.last} , {A*.last} ; {A*.last} , {A*.last} .
- Play was stopped for <n> minutes because of rain .
- The referee , {C.full} of {M} , showed <d> yellow cards .
- {N} have won the {E} three times but {M} are favourites .
# racing head
- {A} [wins|leads] {E} in {X}
- tennis - {A} [upsets|beats] {B} in {X}
- {N} take gold as {A} falls
# racing open
- {A} of {N} won the {E} in {X} on <day> , beating {B} of {M} by <d> seconds .
- [Top|Second] seed {A.full} beat {B} of {M} <set> <set> to reach the final of the {E} .
- {N.adj} [runner|sprinter|cyclist] {A.full} broke the national record at the {E} in
  {X} .
# racing body
- " I felt strong from the start , " the <n>-year-old {N.adj} [rider|runner] said .
- {A} lost to {B} in last year 's final in {Y} .
- {B} , the champion in <year> , finished [third|fifth|last] .
- {A.He} plays {C} in the next round .
- {C} led for <n> laps before {A} passed {C.him} on the last bend .
- It was the first {N.adj} victory in the {E} since <year> .
- {M} 's {B} pulled out with a back injury .
- Snow fell on {J} and several riders fell .
- {A} trains near {J} with {C} .
- The {E} ends in {Y} on <day> .
# results head
- {E} results
- soccer - {E} standings
- {N} league summary
# results open
- Results of {N.adj} [first|second] division matches on <day> :
- Standings in the {E} after matches played on <day> ( tabulate under played , won ,
  drawn , lost , points ) :
- Leading results in the {E} at {X} on <day> :
# results body
- {T*} <d> {T*} <d>
- {T*} {T*} <d> <d>
- {N*} {N*} <d> <d>
- {T*} <n> <n> <d> <d> <n> <n> <n>
- <rank>. {A*.full} ( {N*} ) <time>
- {A*.full} ( {N*} ) beat {A*.full} ( {N*} ) <set> <set>
- <rank>. {A*.last} {N*} <time>
- Scorers : {A*.last} <n> , {A*.last} <n>
- {T*} v {T*}
- {A*.last} {A*.last} <set> <set>
- {N*} {N*} {N*} <n> <n> <n>
- {T*} {T*} abandoned ( rain )
- {T*} {T*} postponed
- Attendance : <big>
- <rank>. {T*} {N*} <n>
- Halftime <score> . Referee : {A*.full} ( {N*} ) .
- Women 's <n> metres : <rank>. {A*} ( {N*} ) <time> <rank>. {A*} ( {N*} ) <time>
- {A*.init} c {A*.last} b {A*.last} <n>
# disaster head
- [storm|flood|fire] kills <n> in {X}
- {N} [quake|train crash] toll rises to <n>
- ferry sinks off {R} , <n> missing
# disaster open
- At least <n> people were killed when a [storm|flood|landslide] struck {X} in
  northern {N} on <day> , police said .
- A [ferry|fishing boat] carrying <n> passengers sank in the {R} off {X} on <day> ,
  the {F} said .
- [Heavy|Strong] winds closed roads and schools in {X} and {Y} on <day> as a storm
  moved in from {J} .
- A train travelling from {X} to {Y} [left/VBD|jumped] the rails near the {R} early on
  <day> , injuring <n> people .
# disaster body
- Mayor {A.full} said <n> houses had been destroyed .
- " I heard a loud noise and ran , " said {B} , who lives in {Y} .
- Rescue teams from {M} arrived in {X} late on <day> .
- The {F} sent <n> soldiers and two helicopters .
- {O} , which runs the line , offered help to the families .
- The river rose <d> metres in a day .
- April is usually dry in {N} .
- Hospitals in {Y} treated <n> people , most of them children .
- {A} asked {N} 's government for <fee> in aid .
- Villagers near {J} were moved to schools in {Y} .
- No {N.adj} ships were in the area at the time .
- {B} lost {B.his} brother in the flood .
- Power was cut to <big> homes .
- It was the worst disaster in {N} since <year> , when <n> people died near {Y} .
# court head
- {X} court jails {A}
- {A} [denies|admits] fraud at {O}
- judge [frees|fines] {O} [chief|director]
# court open
- A court in {X} on <day> jailed {A} , a former director of {O} , for <d> years for
  fraud .
- {A} , <n> , who lives near {H} in {X} , was charged on <day> with stealing <fee>
  from {O} .
- Police in {X} arrested <n> people on <day> in connection with the
  [murder|kidnapping] of [journalist|lawyer|banker] {A.full} .
- The {G} ruled on <day> that {O} must pay <fee> to {A} .
# court body
- Judge {B.full} said {A} had shown no regret .
- {A} 's lawyer , {C.full} , said {A.he} would appeal .
- The trial will resume in {Y} on <day> .
- {A} denies the charges .
- " My client never worked for {O} , " {C} told the court .
- Prosecutors say {A} moved the money from {X} to a bank in {M} .
- Judge {B.full} fined {O} <fee> .
- {A} spent {Z} in a cell in {Y} .
- Two {M.adj} men were also held .
- {A} was arrested at {Y} airport with <n> kilos of gold .
- The court heard that {A} met {B*} at a hotel in {Y} .
- Police searched {O} 's offices in {Y} .
- Justice must be seen to be done , the lawyer added .
- {A} , wearing a dark suit , did not look at {B} .
- Inspector {B*.full} of the {X} police said the case was closed .
# science head
- {U} team finds [water|gas] on [moon|comet]
- study links [diet|sleep] to [memory|stress]
- {N} to launch {I} probe in <month>
# science open
- Scientists at the {U} in {X} said on <day> they had found a [cheap|safe] way to
  [clean|store] water .
- A team led by {A} of the {U} has found a new species of [frog|beetle|moth] on the
  slopes of {J} .
- {N} will launch its {I} [satellite|probe] in <month> , the {U} said .
# science body
- " This is a big step , " said Professor {A.full} .
- {A} and {B} studied <n> samples taken from the {R} .
- The work was paid for by {O} and the {G} .
- {B} , a [chemist|physicist|doctor] at the {U} who took no part in the study , called
  it [careful|exciting] .
- Reading before bed is popular , but its effect is not known .
- The disease has killed <big> people in {N} and {M} .
- {A.He} has taught in {Y} since <year> .
- {A} plans to return to {J} before {Z} .
- {O} hopes to sell the drug in {M} within <d> years .
- Tests on mice failed , {B} said .
- May is the best month to see it .
- The {U} was founded in <year> by {A*} .
- Engineers in {Y} will test {I} again .
# culture head
- {A} film {W} opens in {X}
- {W} wins top prize
- [singer|actor|author] {A} dies at <n>
# culture open
- [Novelist|Poet|Author] {A.full} won the {N.adj} book prize on <day> for " {W} " ,
  the story of a [baker|sailor|nurse] in {X} .
- {A} , who [wrote|directed] " {W} " , has died in {X} aged <n> .
- The {N.adj} film " {W} " opened the {X} festival on <day> .
# culture body
- {A} grew up in {Y} and studied at the {U} .
- " {A} made us laugh , " said [actor|singer] {B.full} .
- {B} plays a young {M.adj} nurse in the film .
- {W} has sold <big> copies in {N} .
- The show runs at {H} until {Z} .
- Critics in {M} were less kind .
- {A.His} first book , " {W*} " , was paid for by {O} in <year> .
- Tickets cost <n> crowns .
- Hope and grace fill every page of {W} .
- {B} sang at {H} before a crowd of <big> .
- {A} leaves a daughter , {B*.given} , and two sons .
- {O} bought the rights to {W} for <money> .
# diplomacy head
- {N} , {M} sign {L}
- {A} to visit {N} for talks
- {N.adj} envoy leaves {X}
# diplomacy open
- {N} and {M} signed the {L} in {X} on <day> , ending a <n>-year dispute over the {R} .
- {N.adj} Foreign Minister {A.full} arrived in {X} on <day> for talks with {M.adj}
  leaders .
- {N} on <day> [expelled|recalled] two {M.adj} diplomats in a row over
  [fishing|spying] in the {R} .
# diplomacy body
- {A} will meet President {B.full} on <day> .
- {B} told the {G} that {N} wanted peace .
- " Neither {N} nor {M} will gain from war , " {A} said .
- {M} said the {N.adj} claim was false .
- {A} later flies to {Y} and {N*} .
- The {L} was first signed in {Y} in <year> .
- Talks broke down last <month> .
- {N.adj} troops left {J} in <year> , soon after {Z} .
- About <big> {M.pl} live in {N} .
- A spokesman for {A} said no date had been set .
- {N} withdrew its ambassador to {M} , {C.full} , in <month> .
- The {=ORG United Nations} sent {A*} to {X} as an observer .
- Trade across the {R} has stopped and {J} is short of [fuel|food] .
- {B} and {A} shook hands but did not speak .
# local head
- {X} [bridge|library|market] to close
- {O} to cut <n> jobs in {X}
- {X} school named after {A}
# local open
- The {X.council} voted on <day> to [close|rebuild] the bridge near {H} .
- {X} residents gathered at {H} on <day> to protest against plans by {O} to
  [close|sell] the old [mill|brewery] .
- {A} , <n> , who runs a bakery in {X} , will open a second shop near {H} .
# local body
- " {H} is not safe at night , " said {A} .
- {B} of {O} said <n> jobs would go .
- The road from {J} to {Y} will be shut until <day> .
- {A} and {A.his} cousin {C*.given} have lived in {X} for <n> years .
- Will {O} pay for the repairs ?
- The council will meet again in <month> .
- {A} has asked the {G} for help .
- Bishop {B.full} blessed the new hall .
- Mark the date : the fair opens on <day> at <d> p.m.
- {O} has made [bread|paper|glass] in {X} since <year> .
- Neighbours from {Y} brought food .
- A plan to name the park after {B*} was dropped .
- {A} once played for {T} .
# any tail
- , officials in {X} said
- , a spokesman said in {Y} on <day>
- , the {S} reported
- , according to a report in the {S}
- , news agency {S} said , quoting sources in {N}
- despite earlier [doubts|warnings|reports]
- , the first time this has happened since <year>
- , {A} added on <day>
- , people close to {B} told the {S}
- , as had happened after {Z} last year
"""
