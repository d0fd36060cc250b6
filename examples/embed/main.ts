/** The example service of specification 4.4. Its source is src/embed/example; README.md beside this file runs it. */
import { runEmbedDemo } from '../../src/embed/example/service.ts';

process.exit(await runEmbedDemo(process.env, { stdout: process.stdout, stderr: process.stderr, signals: process }));
