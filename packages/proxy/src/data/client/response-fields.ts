/**
 * The fields of a response: names (lower case) and values in turn, without hop-by-hop fields. Repeated fields of an upstream
 * share one object, so the forms that the fronts have made of them are kept.
 */
export class ResponseFields {
	readonly list: readonly string[];
	readonly hasLength: boolean;
	readonly hasDate: boolean;
	/** As HTTP/1.1 lines, and coded for HTTP/2; built with the first response that needs them. */
	lines: string | undefined = undefined;
	coded: string | undefined = undefined;

	/** Names of trailers that may follow (RFC 9110 section 6.6.2), with commas between; empty: none are announced. */
	readonly announcedTrailers: string;
	readonly #isRepeated: boolean;

	/** @param isRepeated the same object will be given again. */
	constructor(list: readonly string[], isRepeated = false, announcedTrailers = '') {
		this.list = list;
		this.announcedTrailers = announcedTrailers;
		this.#isRepeated = isRepeated;
		let hasLength = false;
		let hasDate = false;
		for (let i = 0; i < list.length; i += 2) {
			if (list[i] === 'content-length') hasLength = true;
			else if (list[i] === 'date') hasDate = true;
		}
		this.hasLength = hasLength;
		this.hasDate = hasDate;
	}

	/** @returns the text, flattened if it will be written repeatedly: V8 would join its pieces each time. */
	form(text: string): string {
		return this.#isRepeated ? Buffer.from(text, 'latin1').toString('latin1') : text;
	}

	asRepeated(): ResponseFields {
		return new ResponseFields(this.list, true, this.announcedTrailers);
	}

	/** Adds a length that became known only at the end of the body. */
	withLength(bytes: number): ResponseFields {
		return new ResponseFields([...this.list, 'content-length', String(bytes)]);
	}
}

/**
 * The `date` of responses without one (RFC 9110 section 6.6.1), made once a second.
 *
 * @param form a front's form of it.
 */
export function datesOf(form: (date: string) => string): (wallSeconds: number) => string {
	let second = -1;
	let formed = '';
	return (wallSeconds) => {
		const now = Math.floor(wallSeconds);
		if (now !== second) {
			second = now;
			formed = form(new Date(now * 1000).toUTCString());
		}
		return formed;
	};
}
