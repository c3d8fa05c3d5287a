// Every tool through the official clients: each answer fits its outputSchema, each refusal names tool, field and bound.

import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import Ajv from 'ajv/dist/2020.js';

import { clients } from './clients.mjs';
import { calls, fill, follow, TestEnvironment } from './environment.mjs';

// Returns a function that calls a tool and validates what it answers.
async function validating(client) {
  const { tools } = await client.listTools();
  assert.equal(tools.length, 20);
  const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true });
  const validators = new Map(tools.map((tool) => [tool.name, ajv.compile(tool.outputSchema)]));
  for (const tool of tools) ajv.compile(tool.inputSchema);
  return async (name, parameters) => {
    const result = await client.callTool({ name, arguments: parameters });
    assert.ok(!result.isError, `${name} ${JSON.stringify(parameters)}: ${result.content?.[0]?.text}`);
    const validate = validators.get(name);
    const fits = validate(result.structuredContent);
    assert.ok(fits, `${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(result.structuredContent)}`);
    assert.equal(result.content.length, 1);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    return result.structuredContent;
  };
}

for (const { name, connect } of clients) {
  test(`${name}: every tool answers, and every answer fits its schema`, async (t) => {
    const environment = new TestEnvironment(t);
    const bindings = { repo: environment.repository() };
    const client = await connect(t, environment);
    const call = await validating(client);
    const called = new Set();
    for (const { tool, arguments: parameters, keep = {} } of calls.calls) {
      const answer = await call(tool, fill(parameters, bindings));
      for (const [bound, pointer] of Object.entries(keep)) bindings[bound] = follow(answer, pointer);
      called.add(tool);
    }
    assert.equal(called.size, 20);
    assert.deepEqual(client.reported, []);
  });

  test(`${name}: every tool refuses bad arguments, and the process lives`, async (t) => {
    const environment = new TestEnvironment(t);
    const client = await connect(t, environment);
    const started = await client.callTool({ name: 'grounding_start', arguments: { keyword: 'k', problem: 'p' } });
    const bindings = { session: started.structuredContent.sessionId };
    for (const { tool, arguments: parameters, says } of calls.refusals) {
      // The clients themselves refuse arguments that are no object.
      if (Array.isArray(parameters)) continue;
      const result = await client.callTool({ name: tool, arguments: fill(parameters, bindings) });
      const text = result.content[0].text;
      assert.equal(result.isError, true, `${tool} ${JSON.stringify(parameters).slice(0, 200)}: ${text}`);
      assert.equal(result.structuredContent, undefined);
      for (const word of [tool, ...says]) assert.ok(text.includes(word), `no ${word} in: ${text}`);
    }
    assert.equal((await client.listTools()).tools.length, 20);
    assert.deepEqual(client.reported, []);
  });
}

test('answers of unusual states fit their schemas', async (t) => {
  const environment = new TestEnvironment(t, { GROUNDING_ATTEMPT_WAIT_MS: '100' });
  const repository = environment.repository();
  const waiting = '[ "$1" = run ] || exit 0\ncd "$(dirname "$0")"\nwhile [ -e hold ]; do sleep 0.02; done\nexit 3';
  environment.variables.SOLUTION_PREFLIGHT_BIN = environment.script('preflight', waiting);
  writeFileSync(join(environment.home, 'hold'), '');
  const call = await validating(await clients[0].connect(t, environment));

  const evaluate = { id: 'slow', repoPath: repository };
  assert.equal((await call('solution_evaluate', evaluate)).status, 'running');
  assert.equal((await call('solution_evaluate', { ...evaluate, forceNewAttempt: true })).status, 'refused');
  assert.equal((await call('solution_evaluate_status', { id: 'slow' })).status, 'running');
  assert.equal((await call('solution_evaluate_result', { id: 'slow' })).status, 'running');
  rmSync(join(environment.home, 'hold'));
  let result;
  do result = await call('solution_evaluate_result', { id: 'slow' });
  while (result.status === 'running');
  assert.equal(result.outcomeClass, 'error');

  for (const content of ['a', 'b', 'c']) await call('ledger_add', { sessionId: 's', type: 'unknown', content });
  const page = await call('ledger_summary', { sessionId: 's', limit: 2, afterId: 0 });
  assert.equal(page.truncated, true);
  assert.equal((await call('ledger_summary', { sessionId: 's', afterId: page.nextAfterId })).truncated, false);

  mkdirSync(join(environment.home, '.grounding-mcp/hypotheses'), { recursive: true, mode: 0o700 });
  const malformed = JSON.stringify({ session: 'm', hypotheses: [7, { id: 'x' }] });
  writeFileSync(join(environment.home, '.grounding-mcp/hypotheses/m.json'), malformed);
  assert.equal((await call('hypothesis_list', { sessionId: 'm' })).malformedRows, 2);
});

test('a corrupt ledger is a status that fits its schema', async (t) => {
  const environment = new TestEnvironment(t);
  mkdirSync(join(environment.home, '.evidence-ledger'));
  writeFileSync(join(environment.home, '.evidence-ledger/ledger.db'), 'This is no database. '.repeat(100));
  const call = await validating(await clients[0].connect(t, environment));
  const status = await call('ledger_status', {});
  assert.equal(status.status, 'error');
  assert.ok(status.message.includes('ledger.db'), status.message);
  await call('claim_evaluate', { claim: 'Something is so' });
});
