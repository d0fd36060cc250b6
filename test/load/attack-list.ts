/** All attacks, by name. */
import { ATTACKS, type Attack } from './attacks.ts';
import { UNCAPPED } from './floods.ts';
import { GRPC_FLOODS } from './grpc-floods.ts';
import { UPSTREAM_FLOODS } from './hostile-upstream.ts';
import { TUNNEL_ATTACKS, TUNNEL_FLOODS } from './tunnel-floods.ts';

/** Attacks with a fixed rate, or of one size. */
export const RATED: readonly Attack[] = [...ATTACKS, ...TUNNEL_ATTACKS, ...UPSTREAM_FLOODS];
/** Attacks without a rate, by number of connections. */
export const FLOODS: readonly Attack[] = [...UNCAPPED, ...TUNNEL_FLOODS, ...GRPC_FLOODS];
