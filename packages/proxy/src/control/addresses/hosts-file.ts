import { isIP } from 'node:net';

/**
 * All addresses that a hosts file (hosts(5)) lists for a name, in the order of its lines.
 *
 * @param host in lower case.
 */
export function hostsFileAddresses(text: string, host: string): string[] {
	const lower = text.toLowerCase();
	// Block lists have hundreds of thousands of lines.
	if (!lower.includes(host)) return [];
	return lower.split('\n').flatMap((line) => {
		if (!line.includes(host)) return [];
		const [address = '', ...names] = line.replace(/#.*/s, '').trim().split(/\s+/);
		return names.includes(host) && isIP(address) !== 0 ? address : [];
	});
}
