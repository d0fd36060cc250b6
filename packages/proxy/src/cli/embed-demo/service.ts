import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createGate, GateError } from '@mtls-edge-proxy/gate/embed/gate.ts';
import { readSmallFile } from '@mtls-edge-proxy/gate/embed/read-file.ts';
import { createMtlsServer, type MtlsServer, type Reload } from '@mtls-edge-proxy/gate/embed/tls.ts';
import { readPublicKey } from '@mtls-edge-proxy/gate/gates/public-key.ts';
import {
	createLogger,
	formatJson,
	formatPretty,
	type Logger,
	parseLogFilter,
} from '@mtls-edge-proxy/gate/shared/log.ts';
import type { Environment } from '../command.ts';
import { EnvironmentError, readSettings, type Settings } from './environment.ts';
import { createHandler } from './handler.ts';

/** The parts of the process that the service needs. */
interface EmbedDemoIo {
	readonly stdout: Output;
	readonly stderr: Output;
	/** Emits SIGTERM and SIGINT. */
	readonly signals: NodeJS.EventEmitter;
}

type Output = { write(text: string): unknown; readonly isTTY?: boolean };

/**
 * The example service: the embedded gate in a plain Node server over mutual TLS, HTTP/1.1 and
 * HTTP/2. Serves until SIGTERM or SIGINT, then drains for up to 25 s; SIGUSR1 reloads the certificates.
 *
 * @returns the exit code: 0 after a drain; 1 if it cannot start, with one line on `stderr`, or if a second signal
 *   cuts the drain short; then the caller must end the process.
 */
export async function runEmbedDemo(env: Environment, { stdout, stderr, signals }: EmbedDemoIo): Promise<number> {
	const [first, second] = stopSignals(signals);
	let service: Service;
	try {
		service = await start(readSettings(env), stdout);
	} catch (error) {
		if (!(error instanceof EnvironmentError || error instanceof GateError)) throw error;
		stderr.write(`proxy embed-demo: ${error.message}\n`);
		return 1;
	}
	const { server, log } = service;
	log.info(TARGET, 'draining', { signal: await first });
	const exitCode = await Promise.race([server.drain().then(() => 0), second.then(() => 1)]);
	log.info(TARGET, exitCode === 0 ? 'drained' : 'drain cut short');
	return exitCode;
}

const TARGET = 'proxy::embed';

interface Service {
	readonly server: MtlsServer;
	readonly log: Logger;
}

async function start(settings: Settings, stdout: Output): Promise<Service> {
	const { issuer, audience, tenantRps, certPath, keyPath, clientCaPath } = settings;
	const format = settings.jsonLogs ? formatJson : formatPretty;
	const log = createLogger(
		parseLogFilter('info'),
		(record) => stdout.write(`${format(record, stdout.isTTY === true)}\n`),
		() => new Date(),
	);
	const gate = createGate({ jwtPublicKey: readKey(settings.jwtPublicKeyPath), issuer, audience, tenantRps });
	const server = createMtlsServer(
		{
			certPath,
			keyPath,
			clientCaPath,
			http2: true,
			reloadOnSignal: true,
			onReload: (reload) => logReload(log, reload),
			onError: (error) => log.error(TARGET, 'request failed', { error }),
		},
		createHandler(gate),
	);
	await listen(server, settings);
	const { address, port } = server.address() as AddressInfo;
	log.info(TARGET, 'listening', { address, port });
	return { server, log };
}

function readKey(path: string): KeyObject {
	const text = orEnvironmentError('EMBED_JWT_PUB: ', () => readSmallFile(path));
	return orEnvironmentError(`EMBED_JWT_PUB: ${path} `, () => readPublicKey(text));
}

function orEnvironmentError<T>(prefix: string, read: () => T): T {
	try {
		return read();
	} catch (error) {
		throw new EnvironmentError(prefix + (error as Error).message);
	}
}

async function listen(server: MtlsServer, { host, port }: Settings): Promise<void> {
	server.listen(port, host);
	try {
		await once(server, 'listening');
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		throw new EnvironmentError(`EMBED_BIND: cannot listen on ${host}, port ${port} (${code})`);
	}
}

/** In the proxy's own words. */
function logReload(log: Logger, reload: Reload): void {
	if (reload.ok) log.info(TARGET, 'mTLS config reloaded', { generation: reload.generation });
	else log.error(TARGET, 'mTLS reload failed; keeping old', { error: reload.error });
}

/** The first two signals to stop. Listens without a gap, in which the second signal would kill the process. */
function stopSignals(signals: NodeJS.EventEmitter): [Promise<string>, Promise<string>] {
	const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
	const waiting = [first, second];
	const heard = (signal: string) => waiting.shift()?.resolve(signal);
	signals.on('SIGTERM', heard).on('SIGINT', heard);
	return [first.promise, second.promise];
}
