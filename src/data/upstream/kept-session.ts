import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../shared/clock.ts';

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

/**
 * The last TLS session with one upstream. Who resumes a session relies on what was verified when it began: that is never
 * repeated. So a session lives as long as the certificate that was shown, an hour at most, and with the settings that it was
 * verified by: other CAs, names or certificates of ours mean another transport, and that one has a keeper of its own.
 */
export class KeptSession {
	readonly #clock: Pick<Clock, 'wallSeconds'>;
	#session: Session | undefined;

	constructor(clock: Pick<Clock, 'wallSeconds'>) {
		this.#clock = clock;
	}

	/** One to resume. A ticket of TLS 1.3 is used once: whoever watches could recognise us by it (RFC 8446 appendix C.4). */
	take(): Session | undefined {
		const session = this.#session;
		if (session === undefined) return undefined;
		if (session.until <= this.#clock.wallSeconds()) {
			this.#session = undefined;
			return undefined;
		}
		if (!session.reusable) this.#session = undefined;
		return session;
	}

	keep(session: Session): void {
		this.#session = session;
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
		// The upstream has not wanted it; what it gives us in its place comes with the `session` event.
		if (offered === this.#session) this.#session = undefined;
		const end = (socket.getPeerX509Certificate()?.validToDate.getTime() ?? 0) / 1000;
		return { until: Math.min(end, this.#clock.wallSeconds() + MAX_AGE_SECS), reusable };
	}
}
