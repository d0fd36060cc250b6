/** What `prose.ts` takes of write-good, which brings no types. */
declare module 'write-good' {
	export default function writeGood(
		text: string,
		checks: Readonly<Record<string, boolean>>,
	): { readonly index: number; readonly offset: number; readonly reason: string }[];
}
