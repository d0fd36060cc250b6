/** What a TLS listener is made of: PEM texts of its certificate and key, and of the CAs that vouch for clients. */
export interface PemMaterial {
	readonly cert: string;
	readonly key: string;
	readonly ca: string;
	/** Clients that cannot do this version are refused; the default is 1.2. */
	readonly minVersion?: TlsVersion | undefined;
}

export type TlsVersion = '1.2' | '1.3';
