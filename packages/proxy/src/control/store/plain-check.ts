import { connect } from 'node:net';
import type { StoreAddress } from '../../config/config.ts';
import type { OpenStore } from './connection.ts';
import { StoreFailure } from './failure.ts';

/** A handshake that takes this long is checked, ms; the client waits twice as long. */
const SLOW_MS = 1_000;

/**
 * Detects a store that does not speak TLS at all. A plain Redis takes a ClientHello for the beginning of a command and waits for its end,
 * so without this check the handshake would only time out, without a reason.
 *
 * @param open over TLS.
 */
export function tellPlain(open: OpenStore, address: StoreAddress, slowMs = SLOW_MS): OpenStore {
	return (abandoned, onBroken) => {
		const found = Promise.withResolvers<never>();
		const look = setTimeout(async () => {
			if (await answersPlain(address, slowMs)) found.reject(new StoreFailure('tls', PLAIN));
		}, slowMs);
		return Promise.race([open(abandoned, onBroken), found.promise]).finally(() => clearTimeout(look));
	};
}

/** See `failure.ts`. */
const PLAIN = 'PLAIN_TEXT';

/** Sends only a command without credentials; a store that requires them refuses it, also in plain text. */
function answersPlain({ host, port }: StoreAddress, limitMs: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ host, port });
		const end = (isPlain: boolean) => {
			clearTimeout(limit);
			socket.destroy();
			resolve(isPlain);
		};
		const limit = setTimeout(() => end(false), limitMs);
		socket.on('connect', () => socket.write('PING\r\n'));
		socket.once('data', (answer: Buffer) => end(/^(?:\+PONG|-[A-Z]+ )/.test(answer.toString('latin1'))));
		socket.on('error', () => end(false));
		socket.on('close', () => end(false));
	});
}
