/**
 * PEM files (RFC 7468): complete blocks, with text between them such as the output of `openssl x509 -text`. Libraries skip
 * unrecognised lines, so a file that was truncated during a write loads without its last block. Here anything that is neither
 * a complete block nor text is an error.
 */

export interface PemBlock {
	/** The text after BEGIN: `CERTIFICATE`, `EC PRIVATE KEY`. */
	readonly label: string;
	/** From the BEGIN line to the END line. */
	readonly text: string;
	/** Number of the BEGIN line, from 1. */
	readonly line: number;
}

/**
 * Splits a PEM text into blocks. The content of a block is not checked.
 *
 * @returns the blocks in order, an empty list if there are none; or a description of the damage, which names lines, never
 *   content.
 */
export function readPem(text: string): PemBlock[] | string {
	const lines = text.split(/\r?\n/);
	const blocks: PemBlock[] = [];
	for (let i = 0; i < lines.length; i++) {
		const label = BEGIN.exec(lines[i]!)?.[1];
		if (label === undefined) {
			if (isText(lines[i]!, i === lines.length - 1)) continue;
			return `line ${i + 1} is a truncated or damaged line of a PEM block; ${REMEDY}`;
		}
		let end = i + 1;
		while (end < lines.length && !lines[end]!.includes(DASHES)) end++;
		if (end === lines.length) return `the block that begins on line ${i + 1} is truncated; ${REMEDY}`;
		if (END.exec(lines[end]!)?.[1] !== label) {
			return `the block that begins on line ${i + 1} is truncated or damaged on line ${end + 1}; ${REMEDY}`;
		}
		blocks.push({ label, text: `${lines.slice(i, end + 1).join('\n')}\n`, line: i + 1 });
		i = end;
	}
	return blocks;
}

const REMEDY = 'replace the file';
const DASHES = '-----';
/** OpenSSL requires them at the beginning of a line and allows trailing white space. */
const BEGIN = /^-----BEGIN ([A-Z\d][A-Z\d ]*)-----[ \t]*$/;
const END = /^-----END ([A-Z\d][A-Z\d ]*)-----[ \t]*$/;

/** @param last whether the text ends here, without a line break: dashes may then be the beginning of a BEGIN line. */
function isText(line: string, last: boolean): boolean {
	return !line.includes(DASHES) && !(last && /^-+$/.test(line));
}
