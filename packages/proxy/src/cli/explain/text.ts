import { styleText } from 'node:util';
import type { ExplainResult, Gate } from './json.ts';

/** For people: at most 80 columns, but for lines of the upstream's head, which are cut. */

const WIDTH = 80;

export function toText(result: ExplainResult, color: boolean): string {
	const { method, target, protocol, config, gates, notes } = result;
	const paint = color ? painted : plain;
	const reached = gates.filter((gate) => gate.reached);
	const beyond = gates.filter((gate) => !gate.reached);
	const lines = [
		...wrap(`${method} ${printable(target)} over ${protocol === 'h2' ? 'HTTP/2' : 'HTTP/1.1'}, by ${config}`, ''),
		'',
		...reached.flatMap((gate) => gateLines(gate, paint)),
	];
	if (beyond.length > 0) {
		lines.push('', 'Not reached, but checked anyway:', ...beyond.flatMap((gate) => gateLines(gate, paint)));
	}
	if (notes.length > 0) lines.push('', ...notes.flatMap((note) => wrap(printable(note), 'note: ')));
	if (result.upstream_head !== null) {
		lines.push('', `${result.upstream} gets:`, ...result.upstream_head.map((line) => cut(`  ${printable(line)}`)));
	}
	lines.push('', ...wrap(verdictWords(result), ''));
	return `${lines.join('\n')}\n`;
}

const WORDS: Readonly<Record<Gate['verdict'], string>> = {
	ok: 'ok',
	refused: 'REFUSED',
	'not asked': 'not asked',
	unknown: 'unknown',
};

type Paint = (verdict: Gate['verdict'], text: string) => string;
const plain: Paint = (_, text) => text;
const painted: Paint = (verdict, text) => styleText(COLORS[verdict], text, { validateStream: false });
const COLORS = { ok: 'green', refused: 'red', 'not asked': 'dim', unknown: 'yellow' } as const;

const GATE = 11;
const DETAIL = 13;

function gateLines({ gate, verdict, reason, details, checks }: Gate, paint: Paint): string[] {
	const title = `${gate}${verdict === 'refused' && reason !== null ? `: ${reason}` : ''}`;
	const head = `${paint(verdict, WORDS[verdict].padEnd(GATE))}${printable(title)}`;
	const detailed = details.flatMap((detail) => wrap(printable(detail), '', DETAIL));
	const checked = checks.flatMap((check) => {
		const lead = check.verdict === 'refused' ? 'REFUSED' : check.verdict;
		const [first = '', ...rest] = wrap(`${check.name}: ${printable(check.detail)}`, lead.padEnd(8), DETAIL);
		return [first.replace(lead, () => paint(check.verdict as Gate['verdict'], lead)), ...rest];
	});
	return [head, ...detailed, ...checked];
}

function verdictWords({ outcome, answer, reason, ended_by: gate, upstream, route, method }: ExplainResult): string {
	if (outcome === 'passes') return `Passes: the request goes to ${upstream} by the route "${route}".`;
	if (outcome === 'undecided') return `Undecided: the gate "${gate}" lacks the facts to decide.`;
	if (answer!.ending === 'closed')
		return `Refused: the connection is closed in the handshake; the log says "${reason}".`;
	if (answer!.ending === 'reset') return `Refused: the stream is reset without a response; the log says "${reason}".`;
	const fields = Object.entries(answer!.headers).map(([name, value]) => `${name}: ${value}`);
	const body = method === 'HEAD' || answer!.body === '' ? 'no body' : `the body "${answer!.body}"`;
	const { status, logged_status: logged } = answer!;
	const log = status === logged ? `"${reason}"` : `${logged}, "${reason}"`;
	return `Refused: the client gets ${status} and ${[body, ...fields].join(', ')}. The log says ${log}.`;
}

/** Escapes text from a token or a certificate, which must not move the cursor. */
function printable(text: string): string {
	return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (char) => {
		return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
	});
}

/** Wraps at blanks; a word that is longer than a line is broken. */
function wrap(text: string, lead: string, indent = 0): string[] {
	const margin = ' '.repeat(indent);
	const hanging = ' '.repeat(lead.length);
	const width = WIDTH - indent - lead.length;
	const lines: string[] = [];
	let line = '';
	for (const word of text.split(' ')) {
		let rest = word;
		if (line !== '' && line.length + 1 + rest.length > width) {
			lines.push(line);
			line = '';
		}
		while (rest.length > width) {
			lines.push(rest.slice(0, width));
			rest = rest.slice(width);
		}
		line = line === '' ? rest : `${line} ${rest}`;
	}
	if (line !== '') lines.push(line);
	return lines.map((one, i) => `${margin}${i === 0 ? lead : hanging}${one}`);
}

function cut(line: string): string {
	if (line.length <= WIDTH) return line;
	const tail = ` … (${line.length - 2} characters)`;
	return `${line.slice(0, WIDTH - tail.length)}${tail}`;
}
