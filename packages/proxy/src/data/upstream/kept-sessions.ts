import type { TLSSocket } from 'node:tls';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/** A TLS session that can be resumed. */
export interface Session {
	/** As Node's `session` event gives it. */
	readonly ticket: Buffer;
	/** TLS 1.2: it may be resumed more than once. */
	readonly reusable: boolean;
	/** Time at which the upstream's certificate must be verified anew, seconds since 1970. */
	readonly until: number;
}

/** How long the verification of a certificate holds, seconds. */
const MAX_AGE_SECS = 3_600;

/** A server gives two tickets with each handshake, and may give none with a resumed session. */
const MAX_KEPT = 8;

/**
 * TLS sessions with one upstream that can be resumed. A resumed session relies on the verification at its start, which is
 * never repeated. So a session lives as long as the upstream's certificate, an hour at most, and only under the settings that verified it:
 * other CAs, names or client certificates mean another transport, which keeps its own sessions.
 */
export class KeptSessions {
	readonly #clock: Pick<Clock, 'wallSeconds'>;
	/** Newest last. */
	readonly #sessions: Session[] = [];

	constructor(clock: Pick<Clock, 'wallSeconds'>) {
		this.#clock = clock;
	}

	/** A session to resume. A TLS 1.3 ticket is used once, since an observer could recognise us by it (RFC 8446 appendix C.4). */
	take(): Session | undefined {
		for (let session = this.#sessions.pop(); session !== undefined; session = this.#sessions.pop()) {
			if (session.until <= this.#clock.wallSeconds()) continue;
			if (session.reusable) this.#sessions.push(session);
			return session;
		}
		return undefined;
	}

	keep(session: Session): void {
		if (session.reusable) this.#sessions.length = 0;
		this.#sessions.push(session);
		if (this.#sessions.length > MAX_KEPT) this.#sessions.shift();
	}

	/**
	 * Terms for the sessions of a new connection.
	 *
	 * @param offered the session that it tried to resume.
	 */
	verified(
		offered: Session | undefined,
		socket: Pick<TLSSocket, 'isSessionReused' | 'getProtocol' | 'getPeerX509Certificate'>,
	): Pick<Session, 'until' | 'reusable'> {
		const reusable = socket.getProtocol() === 'TLSv1.2';
		if (offered !== undefined && socket.isSessionReused()) return { until: offered.until, reusable };
		// The upstream no longer knows it, nor older ones; new ones come with the `session` event.
		if (offered !== undefined) this.#sessions.length = 0;
		const end = (socket.getPeerX509Certificate()?.validToDate.getTime() ?? 0) / 1000;
		return { until: Math.min(end, this.#clock.wallSeconds() + MAX_AGE_SECS), reusable };
	}
}
