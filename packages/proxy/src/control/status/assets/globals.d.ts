/// <reference types="uplot" />
// What the two libraries put into the page; uPlot's own types say so themselves.
import type MorphDom from 'morphdom';

declare global {
	const morphdom: typeof MorphDom;
}
