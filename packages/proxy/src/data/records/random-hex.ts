import { randomFillSync } from 'node:crypto';

/** Random hexadecimal digits from a pool: a system call for 16 bytes costs as much as one for thousands. */
export function createRandomHex(): (digits: number) => string {
	const bytes = Buffer.allocUnsafeSlow(POOL_BYTES);
	let pool = '';
	let used = 0;
	return (digits) => {
		if (used + digits > pool.length) {
			pool = randomFillSync(bytes).toString('hex');
			used = 0;
		}
		used += digits;
		return pool.slice(used - digits, used);
	};
}

const POOL_BYTES = 4096;
