// A private home for one test, the real binaries in it, and the recorded calls. Programs see PATH, HOME and what a test
// sets; when the test ends, the daemon of that home is stopped and everything is removed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

export const preflight = join(here, 'node_modules/.bin/preflight');
export const inspector = join(here, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
export const calls = JSON.parse(readFileSync(join(here, '../fixtures/calls.json'), 'utf8'));

function binary(name) {
  const directory = process.env.GROUNDING_BIN_DIR;
  if (!directory) throw new Error('GROUNDING_BIN_DIR is not set: it names the directory of the built binaries; run tests/run');
  return join(directory, name);
}

export const shim = binary('grounding-mcp');

export class TestEnvironment {
  // `test` is the context of a test: its end is the end of this home.
  constructor(test, variables = {}) {
    // TMPDIR may be long, and a socket path has 100 bytes.
    this.home = mkdtempSync('/tmp/n');
    this.variables = { PATH: process.env.PATH, HOME: this.home, SOLUTION_PREFLIGHT_BIN: preflight, ...variables };
    test.after(() => {
      this.run(binary('groundingctl'), ['stop']);
      rmSync(this.home, { recursive: true, force: true });
    });
  }

  run(program, parameters, options = {}) {
    return spawnSync(program, parameters, { cwd: this.home, env: this.variables, encoding: 'utf8', ...options });
  }

  // A git repository with one commit on a feature branch.
  repository() {
    const path = join(this.home, 'repo');
    mkdirSync(path);
    writeFileSync(join(path, 'README.md'), 'A repository under test.\n');
    const git = (...parameters) => {
      const result = this.run('git', parameters, { cwd: path });
      if (result.status !== 0) throw new Error(`git ${parameters.join(' ')}: ${result.stderr}`);
    };
    git('init', '--quiet', '--initial-branch=feature/work');
    git('config', 'user.name', 'Test');
    git('config', 'user.email', 'test@example.com');
    git('add', '--all');
    git('commit', '--quiet', '--message', 'docs: begin');
    return path;
  }

  // An executable shell script.
  script(name, body) {
    const path = join(this.home, name);
    writeFileSync(path, `#!/bin/sh\n${body}\n`);
    chmodSync(path, 0o755);
    return path;
  }
}

// Replaces `<name>` by what is bound to it, and `<12 x>` by the letter x twelve times.
export function fill(value, bindings) {
  if (Array.isArray(value)) return value.map((item) => fill(item, bindings));
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, fill(field, bindings)]));
  }
  if (typeof value !== 'string') return value;
  const repeated = /^<(\d+) x>$/.exec(value);
  if (repeated) return 'x'.repeat(Number(repeated[1]));
  return Object.entries(bindings).reduce((text, [name, bound]) => text.replaceAll(`<${name}>`, bound), value);
}

// Follows a JSON pointer without escapes.
export function follow(value, pointer) {
  return pointer.split('/').slice(1).reduce((field, key) => field?.[key], value);
}

// Asks again until the answer is another one, for half a minute at most.
export async function until(ask, settled) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const answer = await ask();
    if (settled(answer)) return answer;
    assert.ok(Date.now() < deadline, `still ${JSON.stringify(answer)}`);
    await pause(20);
  }
}

// Whether an attempt has its name: a busy machine may need longer than the caller waits, and asking again joins it.
export const named = ({ status }) => status !== 'running-unconfirmed';
