import type { ClientConnection } from '../client/client-connection.ts';
import type { DataPlane } from '../plane/plane.ts';

/** Counts and logs a connection that has used up its share of the worker. */
export function reportDelay({ stats, strangers }: DataPlane, { ip, protocol }: ClientConnection): void {
	stats.count('readsDelayed', protocol);
	strangers.write(
		'info',
		'proxy::listener',
		'reading from a connection is delayed: it has used up its share',
		'share',
		() => ({
			peer: ip,
			protocol,
		}),
	);
}
