import type { OnUnknownKey } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/** Least time between two reports about one issuer, ms. It protects the control plane, which itself limits requests to the issuer. */
const PERIOD_MS = 1_000;

/** Reports tokens that name a key which the set of their issuer lacks. Rate-limited, since anybody can send such tokens. */
export function reportUnknownKeys(clock: Clock, report: OnUnknownKey): OnUnknownKey {
	// By issuer, so no larger than the configuration.
	const reported = new Map<string, number>();
	return (issuer) => {
		const now = clock.now();
		if (now - (reported.get(issuer) ?? Number.NEGATIVE_INFINITY) < PERIOD_MS) return;
		reported.set(issuer, now);
		report(issuer);
	};
}
