/**
 * Known differences between our reading and other clients' of the same bytes, with reasons. A difference without an entry is a finding.
 * In each entry we are stricter, or we follow the RFC and the client does not.
 */
import { isDeepStrictEqual } from 'node:util';
import { returnedByTheContract, trailersBeyond } from '../models/header-contract.ts';
import type { ParsedResponse } from './parsed-response.ts';
import type { ClientName, ClientReading } from './response-clients.ts';
import type { Field, ResponseCase } from './responses.ts';

/** Our reading and a client's. */
export interface Comparison {
	readonly client: ClientName;
	readonly input: ResponseCase;
	readonly ours: ParsedResponse;
	/** Of the whole text, or of the bytes that we consider the complete response. */
	readonly theirs: ClientReading;
	/** Of all but the last byte, which must be too little. */
	readonly early: ClientReading | undefined;
}

interface Difference {
	readonly clients: readonly ClientName[];
	readonly why: string;
	readonly covers: (comparison: Comparison) => boolean;
}

/** We refuse, they accept: by our reason. Nothing is lost, as no honest server sends any of this. */
const STRICTER: Readonly<Record<string, string>> = {
	'malformed status line': 'statuses of five classes and HTTP/1.0 or 1.1 only (RFC 9110 section 15)',
	'no status line': 'nothing may come before the status line (RFC 9112 section 2.2 is about requests)',
	'malformed line': 'no control characters in a reason phrase (RFC 9112 section 4)',
	'malformed field name': 'no folding, no blank before the colon (RFC 9112 section 5)',
	'malformed field value': 'no control characters (RFC 9110 section 5.5)',
	'ambiguous framing': 'one length or one `chunked`, and no other coding (RFC 9112 section 6)',
	'switching protocols without an upgrade request':
		'a 101 is no response to a request without Upgrade (RFC 9110 section 15.2.2)',
	'too many interim responses': 'more than 32 of them are a flood',
	'malformed chunk size': 'at most 13 digits, extensions by the grammar and without blanks (RFC 9112 section 7.1)',
	'chunk extensions too long': 'extensions of 1 KiB a chunk are enough, and of 16 KiB more than the content',
	'chunk without its end': 'a chunk ends where its size says (RFC 9112 section 7.1)',
	'malformed trailers': 'the lines of trailers are those of a head (RFC 9112 section 5)',
	'framing in a trailer': 'framing has no place in trailers (RFC 9110 section 6.5.1)',
	'interim response that ends the connection': 'what promises another response cannot end the connection',
	'head too long': 'a head of 64 KiB is enough',
	'trailers too long': 'trailers of 64 KiB are enough',
};

const head = ({ input }: Comparison) => input.text;
const weTakeIt = ({ ours }: Comparison) => ours.verdict === 'complete';
const theyRefuse = (pattern: RegExp) => (comparison: Comparison) =>
	weTakeIt(comparison) && comparison.theirs.verdict === 'refused' && pattern.test(comparison.theirs.reason);

const DIFFERENCES: readonly Difference[] = [
	{
		clients: ['node', 'undici'],
		why: 'llhttp takes a bare CR for the end of a status line, we wait for a line that ends in CRLF; RFC 9112 section 2.2',
		covers: (it) => it.ours.verdict === 'waiting' && /\r\r/.test(head(it)),
	},
	{
		clients: ['node', 'undici'],
		why: 'llhttp takes `chunked` with a tab behind it for another coding, and reads until the close; RFC 9110 section 5.5: blanks around a value are no part of it',
		covers: (it) => /^transfer-encoding:[\t ]*chunked *\t[\t ]*\r$/im.test(head(it)),
	},
	{
		clients: ['undici', 'milo'],
		why: 'undici never asks for a 100 and takes one for an attack; RFC 9110 section 15.2: a client must be able to take it',
		covers: (it) => theyRefuse(/bad response/)(it) && /^HTTP\/1\.[01] 100/m.test(head(it)),
	},
	{
		clients: ['undici', 'milo'],
		why: 'undici counts the blanks behind a length as digits; RFC 9110 section 5.5: they are no part of the value',
		covers: (it) =>
			theyRefuse(/LENGTH_MISMATCH|Invalid character in Content-Length/)(it) &&
			/^content-length:.*[\t ]\r$/im.test(head(it)),
	},
	{
		clients: ['node', 'undici', 'milo'],
		why: 'llhttp and Milo take a `Proxy-Connection: close` of an interim response for the end; no RFC gives that field a meaning',
		covers: (it) =>
			theyRefuse(/Data after `Connection: close`|Unexpected data/)(it) && /^proxy-connection:/im.test(head(it)),
	},
	{
		clients: ['milo'],
		why: 'Milo wants the announced length of a 304, and chunks where there is a Trailer; RFC 9110 sections 15.4.5 and 6.6.2 do not',
		covers: (it) =>
			theyRefuse(/LENGTH_MISMATCH|HPE_UNEXPECTED_TRAILERS/)(it) && /^trailer:|^HTTP\/1\.1 304/im.test(head(it)),
	},
	{
		clients: ['node', 'undici'],
		why: 'we end a 205 with its head, and what follows ends the connection; RFC 9110 section 15.3.6: it has no content',
		covers: (it) => it.ours.status === 205,
	},
	{
		clients: ['milo'],
		why: 'Milo is not done: it takes no body that ends with the connection',
		covers: (it) =>
			weTakeIt(it) && it.theirs.verdict === 'refused' && it.theirs.reason === 'UND_ERR_SOCKET: other side closed',
	},
	{
		clients: ['milo'],
		why: 'Milo is not done: it takes no HTTP/1.0, no missing reason, no empty or odd Connection, Trailer, Upgrade, no length or coding with 204 and 304',
		covers: theyRefuse(
			/HPE_UNSUPPORTED_HTTP_VERSION|Status line too short|(Expected|Invalid) (Connection|Trailer|Upgrade) header value|HPE_UNEXPECTED_(CONTENT_LENGTH|TRANSFER_ENCODING)|HPE_MISSING_CONNECTION_UPGRADE/,
		),
	},
];

/** @returns how we and the client agree, or why we differ; `undefined` for an unexplained difference. */
export function explain(comparison: Comparison): string | undefined {
	const { client, ours, theirs, early } = comparison;
	const alike =
		ours.verdict === 'complete'
			? theirs.verdict === 'complete' && saysTheSame(ours, theirs)
			: theirs.verdict !== 'complete';
	const notTooEarly = early === undefined || early.verdict !== 'complete';
	if (alike && notTooEarly) return ours.verdict === 'complete' ? 'says the same' : 'does not take it either';
	const difference = DIFFERENCES.find(({ clients, covers }) => clients.includes(client) && covers(comparison));
	if (difference !== undefined) return `differs: ${difference.why}`;
	if (ours.verdict !== 'refused') return undefined;
	const reason = ours.reason.endsWith(' in the trailers') ? 'malformed trailers' : ours.reason;
	return STRICTER[reason] && `we are stricter: ${reason}: ${STRICTER[reason]}`;
}

/** Whether the client's reading equals ours. undici keeps the blanks after a value. */
function saysTheSame(ours: ParsedResponse, theirs: ClientReading): boolean {
	const trimmed = theirs.fields.map(([name, value]) => [name, value.replace(/[\t ]+$/, '')] as const);
	if (theirs.trailers !== undefined && !saysTheSameTrailers(ours, theirs.fields, theirs.trailers)) return false;
	return isDeepStrictEqual(
		{ status: theirs.status, body: theirs.body, fields: returnedByTheContract(trimmed).flat() },
		{ status: ours.status, body: ours.body, fields: ours.fields },
	);
}

function saysTheSameTrailers(
	{ trailers }: ParsedResponse,
	fields: readonly Field[],
	theirs: readonly Field[],
): boolean {
	const trimmed = trailersBeyond(fields, theirs).map(([name, value]) => [name, value.replace(/[\t ]+$/, '')]);
	return isDeepStrictEqual(trimmed.flat(), trailers);
}
