/** The rules of prose for the pages. A number is a ceiling; a tic is a phrase that this repository has used in place of plain English. */

/** Words of one sentence. Code counts as one word. */
export const SENTENCE_WORDS = 30;
/** Words of one cell of a table: a phrase or two, never a paragraph. */
export const CELL_WORDS = 24;
/** Words of one bullet: four lines of some fifteen words. */
export const BULLET_WORDS = 60;
/** The share of a page's sentences that may be in the passive voice. */
export const PASSIVE_SHARE = 0.25;
/** Pages with fewer sentences have no share worth a judgement. */
export const PASSIVE_SENTENCES = 20;

/** A sentence that begins so and is no question hides its subject in a clause: "Who asks …", "What is left …". */
export const HIDDEN_SUBJECT = /^(?:Who|Whom|Whose|What)\s(?!.*\?$)/;

/** Phrases not to write, and what to write in their place. */
export const TICS: readonly (readonly [RegExp, string])[] = [
	[/\bwho(?:so|m)?ever\b/i, 'the person: "the operator", "a client", "anyone who"'],
	[/\bsomebody\b/i, '"someone", or the person'],
	[/\beverybody\b/i, '"everyone", or who it is'],
	[/\bnobody\b/i, '"no one", or who: "no client"'],
	[/\bbesides?\b/i, '"next to", "with", "than" or "also"'],
	[/\b(?:come|comes|came) about\b/i, '"succeed", "is established" or "happens"'],
	[/\bdear(?:er|est)?\b/i, '"expensive"'],
	[/\bcannot be told from\b/i, '"is indistinguishable from"'],
	[/\bnot to be had\b/i, '"not available"'],
	[/\b(?:of|to|by|behind|below|for) which\b/i, 'a second sentence, or "whose", "where", "that"'],
	[/\blikewise\b/i, '"the same", or "also"'],
	[/\ball the same\b/i, '"still", or "anyway"'],
	[/\bno word of\b/i, '"nothing of", or "none of"'],
	[/\bwithout a word\b/i, '"silently"'],
	[/\bgoes on as\b/i, '"continues as"'],
	[/\b(?:takes?|took|taken) along\b/i, '"also ends", "also removes"'],
	[/\bin mid-\w+/i, '"during"'],
	[/\bamid\b/i, '"during"'],
	[/\bfor good\b/i, '"permanently"'],
	[/\bthe (?:former|latter)\b/i, 'the noun again'],
	[/(?<!\b(?:let|leave|left|stand|stands|read) )\balone\b/i, '"only", before its noun'],
	[/\bunder way\b/i, '"in flight"'],
	[/\bmend(?:ed|s)?\b/i, '"fix", "fixed"'],
	[/\b(?:is|are) at an end\b/i, '"over"'],
	[/\bspeaks? of\b/i, '"says", "describes"'],
	[/\bin the way of\b/i, '"blocks"'],
	[/\bhas? an? \w+ of (?:its|their) own\b/i, '"its own", before its noun'],
	[/\b(?:in|for) want of\b/i, '"without", "because … is missing"'],
	[/\bover all (?:\w+ )?(?:threads|workers|replicas|processes)\b/i, '"across all"'],
	[/\bstandard build\b/i, '"collected build"'],
	[/\b(?:is|are) none\b/i, '"is not", "does not exist", or the noun'],
	[/\btakes? (?:no )?orders\b/i, '"accepts commands"'],
	[/\borders to\b/i, '"commands to"'],
	[/\bin place of\b/i, '"instead of"'],
	[/\bnewcomers?\b/i, '"new tenants", "new clients"'],
	[/\balso (?:after|during|over|with|while)\b/i, '"even", or "as well" at the end'],
	[/\bha(?:s|ve) (?:a )?bounds?\b/i, '"is bounded"'],
	[/\b(?:whole|broken|long|early) answers?\b/i, '"response"; the answer of a person, or of DNS, has no such adjective'],
	[/\banswers? of the (?:upstream|proxy|store)\b/i, '"response"'],
	[/\b(?:fault|faults) (?:of|in) (?:Node|TLS|OpenSSL|the proxy|ours)\b/i, '"bug", "vulnerability"'],
	[/\bmakes? a \w+ of (?:it|each|them|every)\b/i, 'a verb: "wraps", "converts"'],
	[/\b(?:is|are) not here\b|^not here$/i, '"not supported"'],
	[/\bfrom the (?:reload|start|request|moment) on\b/i, '"after", or "from … onwards"'],
	[/\bas it were\b/i, 'nothing, or the fact'],
	[/\b(?:only )?at the start\b(?! of)/i, '"at startup"'],
	[/\b(?:is|are|was|were|as) away\b/i, '"unavailable"'],
	[/\bby (?:itself|themselves)\b/i, '"automatically", "independently"'],
	[/\bblanks?\b/i, '"space", "whitespace"'],
	[
		/\b(?:[Tt]he|[Aa]n?) (?:gate|package|claim|alert|resource|panel|grant|usage|component) CODE/,
		'the name before its noun: "the `route` gate"',
	],
	[/\b(?:at most|up to) \S+ in (?:CODE|\d+|ten|five) (?:m?s|seconds|minutes)\b/i, '"every" before the time'],
	[/\banswers? (?:with )?(?:\d{3}|CODE|a? ?2xx)/i, '"returns", "responds with"'],
	[
		/\b(?:token|certificate|key|response|request)s? of (?:another|the other|one) (?:issuer|client|tenant|upstream|address|CA)\b/i,
		'"from"',
	],
	[/\blimit of open files\b/i, '"open-file limit"'],
	[
		/\b(?:opens|starts|fetches|follows|refills|loses|imports|loads|parses|stores) no \w/i,
		'"does not", before the verb',
	],
];
