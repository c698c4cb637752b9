"""Common English words for prompts of any length: what is asked does not matter, only that no two prompts are alike."""

_TEXT = """
able above accept account across action active actor actual address adult advice affair afraid after again agency
agent almost alone along already although amount ancient anger angle animal annual answer anybody apart appeal apple
area argue around arrive article artist aside asleep aspect attempt author autumn average avoid award aware
baby balance ball band bank barely base basic basket battle beach bear beat beauty become before begin behave behind
belief belong below beside better beyond bill bird birth bitter black blanket blind block blood board body bone book
border borrow bottle bottom bowl branch brave bread break breath brick bridge brief bright bring broad brother brown
brush build burden burn business busy butter button cabin cable calm camera candle capital captain capture carbon
career careful carpet carry castle casual catch cause ceiling center century certain chain chair chance change
chapter charge charm cheap check cheese chest chief child choice choose church circle citizen city claim class clean
clear clever climb clock close cloth cloud coach coast coffee cold collar collect color column comfort common
company compare concern concert connect consider contain content control corner correct cotton couch council count
country couple courage course cover cream create credit crew crisis crop cross crowd culture curious current
curtain custom damage dance danger dark daughter deal debate decade decide deep defend degree delay deliver demand
deny depend depth describe desert design desire detail develop differ dinner direct discover discuss disease
distance divide doctor dollar double doubt draft dragon drama dream dress drink drive during dust duty eager early
earn earth east easy economy edge editor educate effect effort either elder electric elegant element empty enable
ending energy engine enjoy enough enter entire equal escape estate even evening event every evidence exact
example excite excuse exercise exist expand expect expert explain express extend extra fabric face factor faculty
fail faint fair faith family famous farm fashion father fault favor fear feature feed feel fellow fence festival
fiction field figure film final finger finish fire firm fish flame flat flavor flight float floor flower fold follow
food foot force foreign forest forget form forward found frame free fresh friend front fruit fuel full future gain
garden gather gentle ghost giant gift glad glass global golden govern grace grade grain grand grass great green
ground group grow guard guess guest guide habit hair half hall hand happen happy harbor hard harvest hear heart heat
heavy height hello help hero hidden high hill history hold hole holiday home honest honor hope horse hospital host
hotel hour house human humor hunger hunt hurry ideal idle image impact inch income indeed industry inform initial
injury inner insect inside invite iron island issue item jacket join joint journal journey judge juice jump junior
jury keen keep kind king kitchen knee knife knock know label labor ladder lake land language large last late laugh
layer lead leaf learn leather leave legal lemon lend length lesson letter level liberty library lift light limit
line list little live local lonely long lose loud love lower lucky lunch machine magic main major manage manner
market marry master match matter meal measure meat medical meet melt member memory mention message metal method
middle mild milk mind minor minute mirror mission mix model modern modest moment money month moral morning mother
motion motor mountain mouth move much muscle museum music narrow nation native nature near neat neck needle
nerve never next night noble noise normal north notice novel number nurse object observe obtain ocean offer office
often open operate opinion orange order origin other outline outside oven owner oxygen package page paint pair
palace paper parent park partner party pass past path patient pattern pause peace pencil people pepper perfect
period permit person phone photo phrase piano picture piece pilot pink pipe pitch place plain planet plant plastic
plate play please plenty pocket poem point police policy polite pool poor popular portrait position potato pound
powder power praise predict prefer prepare present press pretty price pride prince print private prize
problem produce profit program promise proof proper protect proud prove public pull pupil pure purpose push
quality quarter queen question quick quiet quite rabbit race radio rail rain raise range rapid rare rather reach
react read ready real reason recall receive record recover reduce refer reflect refuse region regular reject relate
relax remain remember remote remove repair repeat reply report request rescue research resist respect rest result
retire return reveal review reward rhythm rich ride right ring river road rock role roof room root rough round route
royal rule rural safe sail salad salt same sample sand save scale scene school science score screen search season
seat second secret section seed seek select senior sense separate series serious serve settle seven shadow shake
shape share sharp sheep shelf shell shelter shine ship shirt shock shoe shop shore short shoulder show shower shut
side sign signal silence silver similar simple sing single sister skill skin sleep slice slide slight slow small
smart smile smoke smooth snow social soft soil soldier solid solve song sorry sort soul sound soup source south
space spare speak special speech speed spell spend spirit split sport spread spring square stable staff stage stair
stamp stand star start state station stay steady steam steel step stick still stock stomach stone store storm story
straight strange stream street stress strike string strong student study style subject succeed sudden sugar suggest
suit summer sun supply support sure surface surprise survey sweet swim switch symbol system table tail talent talk
target task taste teach team tear tell temple tennis tension term test text thank theory thick thin third thought
thread throat throw ticket tight timber time tiny title today together tomorrow tongue tool tooth topic total touch
tour toward tower town track trade train travel treat tree trial trick trip trouble truck trust truth tunnel twelve
twice twin type typical under uniform union unique unit unusual upper urban useful usual valley value variety vast
vehicle version view village violin visit visual voice volume vote wage wagon wait wake walk wall wander warm
wash waste watch water wave weak wealth wear weather weekend weight welcome well west wheel while whisper
white whole wide wife wild window wine winter wire wise wish witness wolf woman wonder wood wool word work world
worry worth wound write wrong yard year yellow young youth zero zone
"""
WORDS = tuple(_TEXT.split())
