import { isIP } from 'node:net';

/**
 * The addresses that a file of hosts (hosts(5)) has for a name, of all its lines, in their order.
 *
 * @param host in lower case.
 */
export function hostsFileAddresses(text: string, host: string): string[] {
	const lower = text.toLowerCase();
	// Lists that block names have hundreds of thousands of lines.
	if (!lower.includes(host)) return [];
	return lower.split('\n').flatMap((line) => {
		if (!line.includes(host)) return [];
		const [address = '', ...names] = line.replace(/#.*/s, '').trim().split(/\s+/);
		return names.includes(host) && isIP(address) !== 0 ? address : [];
	});
}
