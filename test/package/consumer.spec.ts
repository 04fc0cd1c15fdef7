import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const ROOT = resolve(__dirname, '../..');
const INSTALL_LIMIT_MS = 300_000;

/** What both builds of test/package/consumer/app.ts must print. */
const EXPECTED = {
  moved: ['s1:lock:sku:s1'],
  mostAtOnce: 1,
  refused: 'LOCK_BUSY',
  released: 'released',
  remaining: 1,
  runs: 1,
};

function run(cwd: string, command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error });
  }
}

describe('the packed tarball, in a project of a consumer', () => {
  let project: string;

  beforeAll(() => {
    project = mkdtempSync(join(tmpdir(), 'consumer-'));
    const { tarball } = JSON.parse(
      run(
        ROOT,
        process.execPath,
        '--input-type=module',
        '--eval',
        `import { pack } from './test/package/pack.mjs'; console.log(JSON.stringify(pack(${JSON.stringify(project)})))`,
      ),
    ) as { tarball: string };

    const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>;
    };
    const peers = ['@nestjs/common', '@nestjs/core', 'ioredis', 'reflect-metadata', 'rxjs'];
    const tools = ['typescript', '@types/node'];
    const versions = [...peers, ...tools].map((name) => [name, devDependencies[name]]);
    writeFileSync(
      join(project, 'package.json'),
      JSON.stringify({
        name: 'consumer',
        private: true,
        dependencies: { 'nestjs-redis-lock': `file:${tarball}`, ...Object.fromEntries(versions) },
      }),
    );
    run(project, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts');

    for (const [folder, type, sources] of [
      ['cjs', 'commonjs', ['app.ts']],
      ['esm', 'module', ['app.ts', 'two-copies.mts']],
    ] as const) {
      mkdirSync(join(project, folder));
      writeFileSync(join(project, folder, 'package.json'), JSON.stringify({ type }));
      for (const source of sources) {
        cpSync(join(__dirname, 'consumer', source), join(project, folder, source));
      }
      writeFileSync(
        join(project, folder, 'tsconfig.json'),
        JSON.stringify({
          compilerOptions: {
            target: 'es2022',
            module: 'nodenext',
            strict: true,
            experimentalDecorators: true,
            emitDecoratorMetadata: true,
            outDir: 'out',
            rootDir: '.',
            types: ['node'],
          },
        }),
      );
    }
  }, INSTALL_LIMIT_MS);

  afterAll(() => rmSync(project, { recursive: true, force: true }));

  it.each([
    ['CommonJS', 'cjs'],
    ['an ES module', 'esm'],
  ])(
    'N20: type checks, loads and runs as %s',
    (_, folder) => {
      const cwd = join(project, folder);
      run(cwd, process.execPath, join(project, 'node_modules/typescript/bin/tsc'), '-p', '.');
      expect(JSON.parse(run(cwd, process.execPath, 'out/app.js'))).toEqual(EXPECTED);
    },
    INSTALL_LIMIT_MS,
  );

  it(
    'N28: a CommonJS and an ES copy in one process take the lock once per call',
    () => {
      const cwd = join(project, 'esm');
      run(cwd, process.execPath, join(project, 'node_modules/typescript/bin/tsc'), '-p', '.');
      expect(JSON.parse(run(cwd, process.execPath, 'out/two-copies.mjs'))).toEqual({
        answer: 'ran',
        acquired: 1,
      });
    },
    INSTALL_LIMIT_MS,
  );
});
