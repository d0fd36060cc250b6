import { isReadView, READ_BUFFER, READ_WORDS, type ReadCallback, readView } from './read-buffer.ts';

export { isReadView, READ_BUFFER, READ_WORDS, readView };

/**
 * The condition `poisoned_reads` of the tests chooses this module. Each read is overwritten after its callback: a view that outlives it
 * shows 0xA5 at once. Otherwise it would show the next read, of another tenant, but only when two reads happen to follow each other. A
 * read within the callback of another one ends the process: it would overwrite what the outer one still reads.
 */
export function reader(callback: ReadCallback): ReadCallback {
	return (length) => {
		if (isReading) throw new Error('a read within the callback of another read');
		isReading = true;
		try {
			return callback(length);
		} finally {
			isReading = false;
			READ_BUFFER.subarray(0, length).fill(POISON);
		}
	};
}

let isReading = false;
const POISON = 0xa5;
