/** Reads a TypeScript module the way the checks need it: what it imports, and which globals it names. */
import { parseSync, Visitor } from 'rolldown/utils';

export interface Import {
	readonly specifier: string;
	/** Gone at run time: `import type`, `export type`, `typeof import()`. */
	readonly typeOnly: boolean;
	/** `import()`. */
	readonly dynamic: boolean;
	readonly line: number;
}

export interface Name {
	readonly name: string;
	readonly line: number;
}

interface SourceModule {
	readonly imports: readonly Import[];
	/** Identifiers, but for names of members: `x` and `y` of `x.z(y)`. Comments and strings are none. */
	readonly names: readonly Name[];
}

interface Node {
	readonly start: number;
}

/** @throws {Error} where the text does not parse, or a dynamic import's specifier is no literal */
export function readModule(path: string, text: string): SourceModule {
	const { program, errors } = parseSync(path, text);
	if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
	const imports: Import[] = [];
	const names: Name[] = [];
	const members = new Set<object>();
	const lineOf = ({ start }: Node) => text.slice(0, start).split('\n').length;
	const add = (node: Node, source: { readonly value: unknown } | null, { typeOnly = false, dynamic = false }) => {
		if (source) imports.push({ specifier: String(source.value), typeOnly, dynamic, line: lineOf(node) });
	};

	new Visitor({
		ImportDeclaration: (node) => add(node, node.source, { typeOnly: node.importKind === 'type' }),
		ExportNamedDeclaration: (node) => add(node, node.source, { typeOnly: node.exportKind === 'type' }),
		ExportAllDeclaration: (node) => add(node, node.source, { typeOnly: node.exportKind === 'type' }),
		TSImportType: (node) => add(node, node.source, { typeOnly: true }),
		ImportExpression: (node) => {
			if (node.source.type !== 'Literal') {
				throw new Error(`${path}:${lineOf(node)}: import() of something that is no literal cannot be checked`);
			}
			add(node, node.source, { dynamic: true });
		},
		MemberExpression: (node) => {
			// `globalThis.Atomics` is still Atomics.
			const isGlobal = node.object.type === 'Identifier' && node.object.name === 'globalThis';
			if (!node.computed && !isGlobal) members.add(node.property);
		},
		Property: (node) => {
			if (!node.computed && !node.shorthand) members.add(node.key);
		},
		MethodDefinition: (node) => void members.add(node.key),
		PropertyDefinition: (node) => void members.add(node.key),
		TSPropertySignature: (node) => void members.add(node.key),
		TSMethodSignature: (node) => void members.add(node.key),
		Identifier: (node) => {
			if (!members.has(node)) names.push({ name: node.name, line: lineOf(node) });
		},
	}).visit(program);
	return { imports, names };
}
