/**
 * HTML that is always escaped: a value in a template is text, unless it is markup itself. Route prefixes,
 * subjects of certificates and names of issuers come from files of others.
 */

/** Text that is HTML already. Only `html` makes it. */
export class Markup {
	readonly #text: string;

	/** @param text trusted: no part of it may come from outside. */
	constructor(text: string) {
		this.#text = text;
	}

	toString(): string {
		return this.#text;
	}
}

export type Content = Markup | string | number | undefined | false | readonly Content[];

/** A template whose values are escaped, in text and in quoted attributes alike. Its indentation is dropped. */
export function html(texts: TemplateStringsArray, ...values: readonly Content[]): Markup {
	let out = compact(texts[0]!);
	for (const [i, value] of values.entries()) out += render(value) + compact(texts[i + 1]!);
	return new Markup(out);
}

/** A path, name or address that may go on in the next line after its signs, and not within a word. */
export function inParts(text: string): Content {
	return text.split(/(?<=[/.:=@,_-])/).map((part, i) => [i > 0 && html`<wbr>`, part]);
}

function render(content: Content): string {
	if (content === undefined || content === false) return '';
	if (content instanceof Markup) return content.toString();
	if (Array.isArray(content)) return content.map(render).join('');
	return escapeText(String(content));
}

function compact(text: string): string {
	return text.replaceAll(/\n\t*/g, '\n');
}

/**
 * Text escaped for HTML. Control characters, and those that change the direction of writing, are shown by number: a name must not
 * change how the text around it reads.
 */
function escapeText(text: string): string {
	return text
		.replaceAll(INVISIBLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
		.replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!);
}

const INVISIBLE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const ENTITIES: Readonly<Record<string, string>> = {
	'&': '&amp;',
	'<': '&lt;',
	'>': '&gt;',
	'"': '&quot;',
	"'": '&#39;',
};
