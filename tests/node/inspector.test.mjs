// The official Inspector, strict, in every protocol era: no error and no warning.

import assert from 'node:assert/strict';
import test from 'node:test';

import { inspector, shim, TestEnvironment } from './environment.mjs';

for (const era of ['legacy', 'auto', 'modern']) {
  test(`the Inspector finds nothing in the ${era} era`, (t) => {
    const environment = new TestEnvironment(t);
    const parameters = [inspector, '--cli', shim, '--method', 'tools/list', '--strict', '--protocol-era', era];
    const { status, stdout, stderr } = environment.run(process.execPath, parameters);
    assert.equal(status, 0, `${stdout}\n${stderr}`);
    assert.equal(JSON.parse(stdout).tools.length, 20);
    assert.doesNotMatch(stderr, /warn|error/i);
  });
}

test('the Inspector shows a tool error as one', (t) => {
  const environment = new TestEnvironment(t);
  const call = [inspector, '--cli', shim, '--method', 'tools/call', '--tool-name', 'grounding_advance'];
  const { stdout, stderr } = environment.run(process.execPath, [...call, '--tool-arg', 'sessionId=none']);
  assert.match(stdout + stderr, /tool_is_error/);
});
