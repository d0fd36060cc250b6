import { proxy } from './proxy.ts';
import { addTests } from './suite.ts';

addTests(proxy);
