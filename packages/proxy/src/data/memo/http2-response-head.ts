import { type ResponseField, ResponseHeadReader, responseField } from '../../gates/response-head.ts';
import type { ResponseFacts } from '../../http2/client/response-fields.ts';
import { type ResponseHead, responseHead } from '../upstream/response-head.ts';

/**
 * The head of an HTTP/2 upstream's response. It is computed once for repeated bytes, which have one `ResponseFacts`; the kind of a name
 * is computed once for each field in the tables of its connection.
 */
export function http2ResponseHead(facts: ResponseFacts): ResponseHead {
	const known = facts.memo as ResponseHead | undefined;
	// A head seen twice will most likely be needed again and again.
	if (known !== undefined && facts.repeated !== 1) return known;
	const reader = new ResponseHeadReader();
	for (const field of facts.fields) {
		if (field.name === ':status') continue;
		const meaning = (field.memo as ResponseField | undefined) ?? responseField(field.name);
		field.memo = meaning;
		reader.field(meaning, field.value);
	}
	reader.finish();
	const head = responseHead(facts.status, true, reader);
	const response = facts.repeated === 0 ? head : { ...head, fields: head.fields.asRepeated() };
	facts.memo = response;
	return response;
}
