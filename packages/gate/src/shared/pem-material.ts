/** The PEM texts of a TLS listener: its certificate, its key, and the CAs for clients. */
export interface PemMaterial {
	readonly cert: string;
	readonly key: string;
	readonly ca: string;
	/** Clients that do not support this version are refused; the default is 1.2. */
	readonly minVersion?: TlsVersion | undefined;
}

export type TlsVersion = '1.2' | '1.3';
