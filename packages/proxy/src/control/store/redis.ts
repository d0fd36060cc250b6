import { connect, isIP } from 'node:net';
import type { RedisClientOptions } from '@redis/client';
import type { LimiterConfig, StoreAddress } from '../../config/config.ts';
import type { StoreFiles } from '../files/store-files.ts';
import type { OpenStore, StoreConnection } from './client.ts';
import { StoreFailure } from './failure.ts';

/**
 * Connections to Redis or Valkey with `@redis/client`, which is loaded with the first one. The library provides RESP, TLS, and
 * finds the primary (Sentinel) or the node of a key (Cluster). `client.ts` decides when to reconnect, and how long to wait for an
 * answer, alike for all three.
 */
export function redisStore(config: LimiterConfig, files: StoreFiles): OpenStore {
	const open = openStore(config, files);
	const [first] = config.store;
	return first!.tls ? tellPlain(open, first!) : open;
}

function openStore(config: LimiterConfig, files: StoreFiles): OpenStore {
	if (config.sentinelName !== undefined) {
		let attempts = 0;
		return (abandoned) => openSentinel(config, files, startingAt(config.store, attempts++), abandoned);
	}
	if (config.cluster) return (abandoned) => openCluster(config, files, abandoned);
	return (abandoned, onBroken) => openClient(config, files, abandoned, onBroken);
}

async function openClient(
	config: LimiterConfig,
	files: StoreFiles,
	abandoned: AbortSignal,
	onBroken: (cause: unknown) => void,
): Promise<StoreConnection> {
	const { createClient } = await import('@redis/client');
	const [address] = config.store;
	const client = createClient({
		...nodeOptions(config, files),
		database: address!.database,
		// It gives up at once, so `client.ts` hears of it.
		socket: { ...socketOptions(config, files, address!), reconnectStrategy: false },
	});
	client.on('error', onBroken);
	const close = () => client.destroy();
	await opened(() => client.connect(), close, abandoned);
	return { send: (_key, args) => client.sendCommand([...args]), close };
}

/** Puts another Sentinel first at each attempt: the library asks the first one at each scan, and commands wait for the scan. */
function startingAt(sentinels: readonly StoreAddress[], attempt: number): StoreAddress[] {
	const first = attempt % sentinels.length;
	return [...sentinels.slice(first), ...sentinels.slice(0, first)];
}

/**
 * The library asks one Sentinel after the other. By itself it waits 5 s for one whose packets are dropped, and without end for one that
 * is frozen, ms. `client.ts` gives it 2 s for all of them.
 */
const SENTINEL_TIMES = { connectTimeout: 500, socketTimeout: 500 };
/** Pings keep a healthy Sentinel from being silent as long as a frozen one, ms. */
const SENTINEL_PING_MS = 150;

async function openSentinel(
	config: LimiterConfig,
	files: StoreFiles,
	sentinels: readonly StoreAddress[],
	abandoned: AbortSignal,
): Promise<StoreConnection> {
	const { createSentinel } = await import('@redis/client');
	const sentinel = createSentinel({
		name: config.sentinelName!,
		RESP: 2,
		sentinelRootNodes: sentinels.map(({ host, port }) => ({ host, port })),
		nodeClientOptions: {
			...nodeOptions(config, files),
			database: config.store[0]!.database,
			socket: tlsOptions(config, files, undefined),
		},
		sentinelClientOptions: {
			...COMMON,
			...credentials(config.sentinelUsername, files.sentinelPassword),
			pingInterval: SENTINEL_PING_MS,
			socket: { ...tlsOptions(config, files, undefined), ...SENTINEL_TIMES },
		},
		// For failovers without a notice: the library looks for the primary at this interval.
		scanInterval: 1_000,
		commandOptions: {},
	});
	sentinel.on('error', ignore);
	const close = () => void sentinel.destroy().catch(ignore);
	await opened(() => sentinel.connect(), close, abandoned);
	return { send: (_key, args) => sentinel.sendCommand(false, [...args]), close };
}

async function openCluster(config: LimiterConfig, files: StoreFiles, abandoned: AbortSignal): Promise<StoreConnection> {
	const { createCluster } = await import('@redis/client');
	const cluster = createCluster({
		RESP: 2,
		rootNodes: config.store.map((address) => ({ socket: socketOptions(config, files, address) })),
		defaults: { ...nodeOptions(config, files), socket: tlsOptions(config, files, undefined) },
	});
	cluster.on('error', ignore);
	const close = () => cluster.destroy();
	await opened(() => cluster.connect(), close, abandoned);
	return { send: (key, args) => cluster.sendCommand(key, false, [...args]), close };
}

/** What all clients have, also those that speak to Sentinels. */
const COMMON = {
	// RESP2 needs no HELLO, which an ACL would have to allow, and nothing here gains from RESP3.
	RESP: 2,
	disableClientInfo: true,
	disableOfflineQueue: true,
	maintNotifications: 'disabled',
} as const satisfies RedisClientOptions<never, never, never, 2>;

function nodeOptions(config: LimiterConfig, files: StoreFiles) {
	return { ...COMMON, ...credentials(config.username, files.password) };
}

function credentials(username: string | undefined, password: string | undefined) {
	return { ...(username !== undefined && { username }), ...(password !== undefined && { password }) };
}

function socketOptions(config: LimiterConfig, files: StoreFiles, address: StoreAddress) {
	const { host, port } = address;
	return { host, port, ...tlsOptions(config, files, host) };
}

/** @param host that is asked, for its name in TLS; `undefined`: the library asks several, and compares certificates with each. */
function tlsOptions({ store, serverName }: LimiterConfig, { ca, identity }: StoreFiles, host: string | undefined) {
	if (!store[0]!.tls) return {};
	const servername = serverName ?? (host === undefined || isIP(host) !== 0 ? undefined : host);
	return {
		tls: true,
		// Overrides NODE_TLS_REJECT_UNAUTHORIZED.
		rejectUnauthorized: true,
		...(ca !== undefined && { ca }),
		...identity,
		...(servername !== undefined && { servername }),
	} as const;
}

function ignore(): void {}

/** Connects, and closes abandoned connections. */
async function opened(connect: () => Promise<unknown>, close: () => void, abandoned: AbortSignal): Promise<void> {
	abandoned.addEventListener('abort', close, { once: true });
	try {
		await connect();
		if (abandoned.aborted) throw abandoned.reason;
	} catch (error) {
		close();
		throw error;
	} finally {
		abandoned.removeEventListener('abort', close);
	}
}

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
