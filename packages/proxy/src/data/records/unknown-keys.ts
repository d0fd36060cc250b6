import type { OnUnknownKey } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/** Between two reports about one issuer, ms. The control plane has the limit that protects the issuer; this one protects it. */
const PERIOD_MS = 1_000;

/** Reports tokens that name a key which their issuer's set does not have: seldom, for anybody can send such tokens. */
export function reportUnknownKeys(clock: Clock, report: OnUnknownKey): OnUnknownKey {
	// By issuer: as many as the configuration has.
	const reported = new Map<string, number>();
	return (issuer) => {
		const now = clock.now();
		if (now - (reported.get(issuer) ?? Number.NEGATIVE_INFINITY) < PERIOD_MS) return;
		reported.set(issuer, now);
		report(issuer);
	};
}
