/**
 * PEM as files hold it (RFC 7468): whole blocks, and text between them such as `openssl x509 -text` writes. Libraries skip
 * what they do not recognise, so a file that was cut off while it was written loads without its last block. Here whatever
 * is neither a whole block nor text is a problem.
 */

export interface PemBlock {
	/** The text after BEGIN: `CERTIFICATE`, `EC PRIVATE KEY`. */
	readonly label: string;
	/** From the BEGIN line to the END line. */
	readonly text: string;
	/** Line of its BEGIN, from 1. */
	readonly line: number;
}

/**
 * Takes a PEM text apart. What a block holds is for its reader to judge.
 *
 * @returns the blocks in their order, none for a text without any; or in words the damage. The words name lines,
 *   never content.
 */
export function readPem(text: string): PemBlock[] | string {
	const lines = text.split(/\r?\n/);
	const blocks: PemBlock[] = [];
	for (let i = 0; i < lines.length; i++) {
		const label = BEGIN.exec(lines[i]!)?.[1];
		if (label === undefined) {
			if (isText(lines[i]!, i === lines.length - 1)) continue;
			return `line ${i + 1} is a cut or damaged line of a PEM block; ${REMEDY}`;
		}
		let end = i + 1;
		while (end < lines.length && !lines[end]!.includes(DASHES)) end++;
		if (end === lines.length) return `the block that begins on line ${i + 1} is cut off; ${REMEDY}`;
		if (END.exec(lines[end]!)?.[1] !== label) {
			return `the block that begins on line ${i + 1} is cut off or damaged on line ${end + 1}; ${REMEDY}`;
		}
		blocks.push({ label, text: `${lines.slice(i, end + 1).join('\n')}\n`, line: i + 1 });
		i = end;
	}
	return blocks;
}

const REMEDY = 'write the file anew';
const DASHES = '-----';
/** OpenSSL wants them at the beginning of a line and lets white space follow. */
const BEGIN = /^-----BEGIN ([A-Z\d][A-Z\d ]*)-----[ \t]*$/;
const END = /^-----END ([A-Z\d][A-Z\d ]*)-----[ \t]*$/;

/** @param last nothing comes behind it, not even a line break: four dashes there may be the first of a BEGIN line. */
function isText(line: string, last: boolean): boolean {
	return !line.includes(DASHES) && !(last && /^-+$/.test(line));
}
