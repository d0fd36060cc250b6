import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { RouteConfig } from '../../config/config.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import type { DnsAddresses } from '../addresses/dns-addresses.ts';
import type { IdentityFiles } from '../files/identity-files.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import type { HealthProber } from '../health/health.ts';
import type { RemoteKeys } from '../jwks/remote-keys.ts';
import { routingSeed } from '../routing/seed.ts';
import { tlsOf } from '../routing/table.ts';
import type { Upstreams } from '../routing/upstreams.ts';
import type { InForce } from './in-force.ts';
import type { Reconciler } from './reconciler.ts';
import type { Desired } from './resource.ts';

/** Routing, as read from files. */
interface RoutingSpec {
	readonly routes: readonly RouteConfig[];
	readonly tls: UpstreamTlsMaterial;
}

export interface Specs {
	readonly tls: TlsMaterial;
	readonly identity: IdentityFiles;
	readonly routing: RoutingSpec;
}

/** The desired state. Reloads set its resources; revocations, keys and addresses change them in between. */
export type Resources = { readonly [Name in keyof Specs]: Desired<Specs[Name]> };

/** Inputs of the resources, in addition to their specifications. */
export interface ResourceSources {
	readonly inForce: Pick<InForce, 'tls' | 'identity' | 'upstreamTls'>;
	/** Adds revocations that are not in the files. */
	readonly withRevoked: (tls: TlsMaterial) => TlsMaterial;
	readonly keys: Pick<RemoteKeys, 'follow' | 'compose' | 'inForce' | 'keepOnly'>;
	readonly upstreams: Upstreams;
	readonly addresses: Pick<DnsAddresses, 'follow' | 'keepOnly' | 'addressesOf'>;
	readonly prober: Pick<HealthProber, 'prove' | 'watch'>;
	readonly log: Logger;
}

/** @param first what the start has read. */
export function createResources(reconciler: Reconciler, first: Specs, sources: ResourceSources): Resources {
	const { inForce, withRevoked, keys, upstreams, addresses, prober, log } = sources;
	const tls = reconciler.add(first.tls, {
		build: withRevoked,
		message: (tls, _, id) => ({ type: 'prepare-tls', id, tls }),
		commit: (tls) => {
			inForce.tls = tls;
		},
		onFailure: (cause) => log.warn('proxy::limiter', 'revocations not applied; trying again', { cause }),
	});
	const identity = reconciler.add(first.identity, {
		gather: ({ remotes }) => keys.follow(remotes),
		build: (spec) => keys.compose(spec),
		message: (identity, _, id) => ({ type: 'prepare-identity', id, identity }),
		commit: (identity, { remotes }) => {
			inForce.identity = identity;
			keys.inForce(identity, remotes);
		},
		discard: ({ remotes }) => keys.keepOnly(remotes),
		onFailure: (cause) => log.warn('proxy::jwks', 'keys not applied; trying again', { cause }),
	});
	const routing = reconciler.add(first.routing, {
		gather: ({ routes }) => addresses.follow(routes),
		build: ({ routes, tls }) => upstreams.plan(routes, tls, addresses.addressesOf),
		// A new breaker is open until a probe passes. So probes come before the switch: no request for a healthy new upstream gets 503.
		prove: ({ fresh }) => prober.prove(fresh),
		message: (plan, worker, id) => ({ type: 'prepare-routing', id, routing: routingSeed(plan, worker) }),
		commit: (plan) => {
			upstreams.apply(plan);
			prober.watch(plan.endpoints.values());
			addresses.keepOnly(plan.routes);
			inForce.upstreamTls = tlsOf(plan);
		},
		discard: ({ routes }) => addresses.keepOnly(routes),
		onFailure: (cause) => log.warn('proxy::dns', 'addresses not applied; trying again', { cause }),
	});
	return { tls, identity, routing };
}
