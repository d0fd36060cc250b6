import type { SecureContext } from 'node:tls';
import type { RouteConfig, UpstreamConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import { createUpstreamContext, upstreamTlsOptions } from '../../tls/upstream-tls.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import type { Upstream } from './table.ts';

/**
 * Everything in a route that concerns its breaker. A breaker that was closed by another health check, or for another `Host`, is unproven:
 * a server of several sites answers for the one that is named.
 */
export function ruleOf({ prefix, upstream, cooldownMs, opening, forwarding }: RouteConfig): string {
	const { failures, tenants, grpcStatuses } = opening;
	const isTls = upstream.tls !== undefined;
	const hosts = [nameOf(forwarding), upstream.dns?.hostField];
	return JSON.stringify([
		prefix,
		upstreamKey(upstream),
		isTls,
		upstream.protocol,
		cooldownMs,
		failures,
		tenants,
		grpcStatuses,
		upstream.health,
		hosts,
	]);
}

/**
 * `Host` of probes, by `upstreamKey`, for upstreams all of whose routes put one name there (`host = "billing.internal"`): probes ask as
 * requests do. Where routes differ there is no such name, and the probes of an upstream that is not there name the address.
 */
export function probeHosts(routes: readonly RouteConfig[]): ReadonlyMap<string, string | undefined> {
	const hosts = new Map<string, string | undefined>();
	for (const { upstream, forwarding } of routes) {
		const key = upstreamKey(upstream);
		const name = nameOf(forwarding);
		hosts.set(key, !hosts.has(key) || hosts.get(key) === name ? name : undefined);
	}
	return hosts;
}

function nameOf(forwarding: RouteConfig['forwarding']): string | undefined {
	return typeof forwarding?.host === 'object' ? forwarding.host.name : undefined;
}

/** @throws Error if the material of an upstream with TLS is missing: it must never be reached in plain text. */
export function connectionOf(
	config: UpstreamConfig,
	material: UpstreamTlsMaterial,
): Pick<Upstream, 'tls' | 'probeOptions'> {
	if (config.tls === undefined) return { tls: undefined, probeOptions: () => undefined };
	const tls = material.get(upstreamKey(config));
	if (tls === undefined) throw new Error(`the TLS files of ${upstreamKey(config)} have not been read`);
	const context = contextOf(tls);
	return { tls, probeOptions: ({ address }) => upstreamTlsOptions(tls, address.host, context, config.protocol) };
}

/** Reading certificates and keys is expensive, and a change of addresses plans a table with the material that is in force. */
function contextOf(tls: UpstreamTlsSeed): SecureContext {
	const context = CONTEXTS.get(tls) ?? createUpstreamContext(tls);
	CONTEXTS.set(tls, context);
	return context;
}

const CONTEXTS = new WeakMap<UpstreamTlsSeed, SecureContext>();
