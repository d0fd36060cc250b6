/** A program that compiles if a dashboard's JSON has Grafana's own types; unknown keys are errors. */

/** @param sdk folder of the package @grafana/grafana-foundation-sdk; @param dashboard JSON text */
export function dashboardProgram(sdk: string, dashboard: string): string {
	return `
import type { Dataquery } from '${sdk}/dist/cog/variants_gen.d.ts';
import type { Dashboard } from '${sdk}/dist/dashboard/types.gen.d.ts';
import type { Dataquery as PrometheusQuery } from '${sdk}/dist/prometheus/types.gen.d.ts';

/** The JSON form of a type: enums are their values, and queries are Prometheus queries. */
type Json<T> = 0 extends 1 & T
	? T
	: T extends string
		? \`\${T}\`
		: T extends (infer Item)[]
			? Json<Item>[]
			: T extends object
				? Dataquery extends T
					? Query
					: { [Key in keyof T]: Json<T[Key]> }
				: T;
type Query = { [Key in Exclude<keyof PrometheusQuery, '_implementsDataqueryVariant'>]?: Json<PrometheusQuery[Key]> };

export const dashboard: Json<Dashboard> = ${dashboard};
`;
}
