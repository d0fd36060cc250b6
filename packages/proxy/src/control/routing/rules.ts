import type { SecureContext } from 'node:tls';
import type { RouteConfig, UpstreamConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import { createUpstreamContext, upstreamTlsOptions } from '../../tls/upstream-tls.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import type { Upstream } from './table.ts';

/**
 * Identifies the settings of a route that concern its breaker. A breaker that another health check closed, or one for another
 * `Host`, proves nothing: a server of several sites answers for the one that `Host` names.
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
 * `Host` of probes, by `upstreamKey`, for upstreams whose routes all set the same name (`host = "billing.internal"`): probes then
 * send what requests send. If routes differ, or the upstream is missing here, its probes name the address.
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

/** Cached, since reading certificates and keys is expensive, and a change of addresses plans a table with the same material. */
function contextOf(tls: UpstreamTlsSeed): SecureContext {
	const context = CONTEXTS.get(tls) ?? createUpstreamContext(tls);
	CONTEXTS.set(tls, context);
	return context;
}

const CONTEXTS = new WeakMap<UpstreamTlsSeed, SecureContext>();
