import { codedField } from '../../http2/hpack-encoder.ts';

/** The coded `date` for a response without one (RFC 9110 section 6.6.1). */
export function codedDate(wallSeconds: number): string {
	const second = Math.floor(wallSeconds);
	if (second !== dateSecond) {
		dateSecond = second;
		date = codedField('date', new Date(second * 1000).toUTCString());
	}
	return date;
}

let dateSecond = -1;
let date = '';
