/** The paths and names of a sample configuration. */
export interface SampleValues {
	readonly certPath: string;
	readonly keyPath: string;
	readonly clientCaPath: string;
	readonly publicKeyPath: string;
	readonly issuer: string;
	readonly audience: string;
	readonly upstream: string;
}

export function sampleConfig(values: SampleValues): string {
	return `${JSON.stringify(values)}`;
}
