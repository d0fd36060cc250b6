import type { OpeningRule } from '../../gates/breaker.ts';
import type { Forwarding } from '../../gates/forwarding.ts';
import type { CertificateHeaders } from '../../identity/certificate-headers.ts';
import type { RouteAccess } from '../../identity/route-access.ts';
import type { RouteStats } from '../../memory/route-stats.ts';
import type { RouteLimit } from '../../shared/quota-gates.ts';
import type { RequestLimits } from '../request/request-limits.ts';
import type { UpstreamGroup } from '../upstream/group.ts';

export interface Route {
	readonly prefix: string;
	/** Its upstream takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	readonly cooldownMs: number;
	readonly opening: OpeningRule;
	/** What a tenant may ask of this route, in addition to all else; `undefined`: no limit. */
	readonly limit?: RouteLimit | undefined;
	/** Time and bytes that its requests have. */
	readonly requestLimits: RequestLimits;
	/** Where its requests go. */
	readonly group: UpstreamGroup;
	/** Who may use it; `undefined`: whoever has come this far. */
	readonly access: RouteAccess | undefined;
	/** What the upstream is told of the client's certificate; `undefined`: nothing. */
	readonly certificateHeaders: CertificateHeaders | undefined;
	/** What becomes of a request on its way there, beside what is the same for all routes; `undefined`: nothing. */
	readonly forwarding?: Forwarding | undefined;
	/** Its requests in flight, and their bytes. */
	readonly stats: RouteStats;
}
