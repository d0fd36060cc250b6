import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { RequestContext } from '../request/context.ts';
import { Reservation } from './buffered-bytes.ts';

/**
 * Charges the tenant for bytes that a connection holds until the other side takes them, like a collected body.
 *
 * @param held for the bytes so far; `undefined`: there have been none.
 * @param refuse called if there is no room.
 * @returns for the next call.
 */
export function chargeHeld(
	held: Reservation | undefined,
	bytes: number,
	{ plane, identity }: RequestContext,
	refuse: (why: Rejection) => void,
): Reservation | undefined {
	if (bytes === 0) {
		held?.release();
		return held;
	}
	const reservation = held ?? new Reservation(plane.bufferedBytes, identity!.tenantKey);
	const noRoom = reservation.resize(bytes);
	if (noRoom !== undefined) refuse(noRoom);
	return reservation;
}
