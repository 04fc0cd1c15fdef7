import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const ROOT = join(__dirname, '../..');
const EXAMPLE = /<!-- example: ([\w-]+) -->\s+```ts\n([\s\S]*?)```/g;

/** The examples of the README, written out as the files that a reader would make of them. */
export class ReadmeExamples {
  private constructor(
    private readonly folder: string,
    readonly names: readonly string[],
  ) {}

  static extract(): ReadmeExamples {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    mkdirSync(join(ROOT, '.tmp'), { recursive: true });
    const folder = mkdtempSync(join(ROOT, '.tmp', 'readme-'));
    const names: string[] = [];
    for (const [, name, code] of readme.matchAll(EXAMPLE)) {
      writeFileSync(join(folder, `${name}.ts`), code!);
      names.push(name!);
    }
    return new ReadmeExamples(folder, names);
  }

  /** What the compiler says about them, with the options of this project. */
  typeErrors(): string[] {
    const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile);
    const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, ROOT);
    const program = ts.createProgram(
      this.names.map((name) => join(this.folder, `${name}.ts`)),
      options,
    );
    return ts
      .getPreEmitDiagnostics(program)
      .filter(({ file }) => file?.fileName.startsWith(this.folder))
      .map(
        ({ file, messageText }) => `${file!.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
      );
  }

  /** Loads one, as an application would. */
  load<T>(name: string): T {
    return require(join(this.folder, `${name}.ts`)) as T;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
