import { deepEqual, equal } from 'node:assert/strict';
import type { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { KeptSessions } from '../../../../packages/proxy/src/data/upstream/kept-sessions.ts';

const NOW = 1_000_000;
const DAY = 24 * 3_600;

function keeper(now = NOW) {
	const clock = { now, wallSeconds: () => clock.now };
	return { clock, kept: new KeptSessions(clock) };
}

const session = (ticket: string, more = {}) => ({
	ticket: Buffer.from(ticket),
	reusable: false,
	until: NOW + 60,
	...more,
});

function socket({ version = 'TLSv1.3', reused = false, validTo = NOW + DAY } = {}) {
	return {
		getProtocol: () => version,
		isSessionReused: () => reused,
		getPeerX509Certificate: () => ({ validToDate: new Date(validTo * 1000) }) as X509Certificate,
	} as TLSSocket;
}

describe('a TLS session with an upstream', () => {
	test('a session of TLS 1.3 is used once, the latest first, and few are kept', () => {
		const { kept } = keeper();
		equal(kept.take(), undefined);
		kept.keep(session('a'));
		kept.keep(session('b'));
		equal(kept.take()?.ticket.toString(), 'b');
		equal(kept.take()?.ticket.toString(), 'a');
		equal(kept.take(), undefined);
		for (let i = 0; i < 100; i++) kept.keep(session(`${i}`));
		let taken = 0;
		while (kept.take() !== undefined) taken++;
		equal(taken, 8);
	});

	test('a session that the upstream has forgotten removes the older ones', () => {
		const { kept } = keeper();
		for (const ticket of ['a', 'b', 'c']) kept.keep(session(ticket));
		kept.verified(kept.take(), socket({ reused: true }));
		const known = kept.take();
		equal(known?.ticket.toString(), 'b');
		kept.verified(known, socket());
		equal(kept.take(), undefined);
	});

	test('a session of TLS 1.2 is used until the upstream refuses it', () => {
		const { kept } = keeper();
		const old = session('a', { reusable: true });
		kept.keep(old);
		equal(kept.take(), old);
		kept.verified(old, socket({ version: 'TLSv1.2', reused: true }));
		equal(kept.take(), old);
		kept.verified(old, socket({ version: 'TLSv1.2' }));
		equal(kept.take(), undefined);
	});

	test('ends with the certificate that was verified when it began, or after an hour', () => {
		const { kept } = keeper();
		deepEqual(kept.verified(undefined, socket()), { until: NOW + 3_600, reusable: false });
		deepEqual(kept.verified(undefined, socket({ validTo: NOW + 5 })), { until: NOW + 5, reusable: false });
	});

	test('sessions from a resumed one expire no later than it', () => {
		const { kept, clock } = keeper();
		const first = session('a', kept.verified(undefined, socket()));
		clock.now += 3_599;
		equal(kept.verified(first, socket({ reused: true })).until, NOW + 3_600);
		// Not the one that was offered: all has been verified anew.
		equal(kept.verified(first, socket()).until, NOW + 3_599 + 3_600);
	});

	test('is not resumed after its end', () => {
		const { kept, clock } = keeper();
		kept.keep(session('a', { reusable: true }));
		clock.now += 59;
		equal(kept.take()?.ticket.toString(), 'a');
		clock.now++;
		equal(kept.take(), undefined);
		clock.now--;
		equal(kept.take(), undefined, 'nor when a clock is set back');
	});
});
