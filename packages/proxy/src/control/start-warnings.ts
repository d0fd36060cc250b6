/** Oldest Node without the remotely reachable TLS faults that 26.12.1 and 26.13.1 have fixed; those in `node:http2` are not reachable here. */
const SAFE_NODE = '26.13.1';

export function nodeWarnings(version: string): string[] {
	if (!isBelow(version, SAFE_NODE)) return [];
	return [
		`Node ${version} has known TLS vulnerabilities that can be exploited over the network; use ${SAFE_NODE} or later: ` +
			'the container image has it, a version manager or nodejs.org installs it (npm has none above 26.10.0)',
	];
}

/**
 * The metrics listener has no authentication. In a container its address is the container's own, and the platform decides what reaches it.
 *
 * @param host from `--metrics-bind`.
 */
export function metricsWarnings(host: string, isContained: boolean): string[] {
	if (isContained || !/^(?:0\.0\.0\.0|\[?::\]?)$/.test(host)) return [];
	return [
		'the metrics listener has no authentication and is bound to all addresses of this machine; ' +
			'give --metrics-bind a private one, such as 127.0.0.1:9090',
	];
}

/** @param exists whether a file is there. Docker and Podman leave a file in the root; Kubernetes and systemd set variables. */
export function runsInContainer(
	env: Readonly<Record<string, string | undefined>>,
	exists: (path: string) => boolean,
): boolean {
	return (
		Boolean(env.KUBERNETES_SERVICE_HOST) || Boolean(env.container) || ['/.dockerenv', '/run/.containerenv'].some(exists)
	);
}

/**
 * @param configured `limits.max_connections`; `undefined` if it is derived.
 * @param derived connections for which the open-file limit leaves room.
 */
export function connectionWarnings(configured: number | undefined, derived: number): string[] {
	if (configured === undefined && derived < FEW_CONNECTIONS) {
		return [
			`the open-file limit leaves room for only ${derived} clients; raise it (ulimit -n, LimitNOFILE), ` +
				'or set limits.max_connections to the number that you need',
		];
	}
	if (configured === undefined || configured <= derived) return [];
	return [
		`limits.max_connections is ${configured}, but the open-file limit leaves room for about ${derived} ` +
			'clients and as many upstream connections; raise it (ulimit -n, LimitNOFILE)',
	];
}

/** Fewer clients than this are hardly ever meant: the default of 1,024 files leaves room for some 350. */
const FEW_CONNECTIONS = 1024;

export function sharesPorts(platform: NodeJS.Platform): boolean {
	// Elsewhere `reusePort` is refused, or gives all connections to one of the listeners.
	return platform === 'linux';
}

function isBelow(version: string, least: string): boolean {
	const [a, b] = [version, least].map((text) => text.split('.').map((part) => Number.parseInt(part, 10)));
	for (let i = 0; i < 3; i++) if (a![i] !== b![i]) return a![i]! < b![i]!;
	return false;
}
