import type { TLSSocket } from 'node:tls';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/** A TLS session that can be resumed. */
export interface Session {
	/** As Node's `session` event gives it. */
	readonly ticket: Buffer;
	/** TLS 1.2: it may be resumed more than once. */
	readonly reusable: boolean;
	/** Seconds since 1970; when the verdict on the upstream's certificate has to be given anew. */
	readonly until: number;
}

/** So long the verdict on a certificate may be relied on, seconds. */
const MAX_AGE_SECS = 3_600;

/** A server gives two tickets with each handshake, and may give none with a resumed session. */
const MAX_KEPT = 8;

/**
 * TLS sessions with one upstream that can be resumed. Who resumes a session relies on what was verified when it began: that is never
 * repeated. So a session lives as long as the certificate that was shown, an hour at most, and with the settings that it was
 * verified by: other CAs, names or certificates of ours mean another transport, and that one has a keeper of its own.
 */
export class KeptSessions {
	readonly #clock: Pick<Clock, 'wallSeconds'>;
	/** The latest at the end. */
	readonly #sessions: Session[] = [];

	constructor(clock: Pick<Clock, 'wallSeconds'>) {
		this.#clock = clock;
	}

	/** One to resume. A ticket of TLS 1.3 is used once: whoever watches could recognise us by it (RFC 8446 appendix C.4). */
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
	 * What holds for the sessions of a connection that has come about.
	 *
	 * @param offered what it was to resume.
	 */
	verified(
		offered: Session | undefined,
		socket: Pick<TLSSocket, 'isSessionReused' | 'getProtocol' | 'getPeerX509Certificate'>,
	): Pick<Session, 'until' | 'reusable'> {
		const reusable = socket.getProtocol() === 'TLSv1.2';
		if (offered !== undefined && socket.isSessionReused()) return { until: offered.until, reusable };
		// The upstream does not know it any more, nor those before it; others come with the `session` event.
		if (offered !== undefined) this.#sessions.length = 0;
		const end = (socket.getPeerX509Certificate()?.validToDate.getTime() ?? 0) / 1000;
		return { until: Math.min(end, this.#clock.wallSeconds() + MAX_AGE_SECS), reusable };
	}
}
