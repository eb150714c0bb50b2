// The unmodified OpenAI SDK for Node against a live server. Run by run.py.
'use strict';

const OpenAI = require('openai');

const facts = JSON.parse(process.env.LAMINA_FACTS);
const same = (a, b) => a.length === b.length && a.every((v, i) => Math.fround(v) === Math.fround(b[i]));

function check(ok, name, why = '') {
  console.log(ok ? `ok ${name}` : `FAIL ${name}: ${why}`);
}

function client(url, options = {}) {
  return new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0, ...options });
}

async function embeddings(c) {
  const input = [[1, 2, 3], [4, 5]];
  const byDefault = await c.embeddings.create({ model: facts.model, input });
  check(byDefault.data.every((d) => d.embedding.length === facts.width), 'default (base64 on the wire)');
  const floats = await c.embeddings.create({ model: facts.model, input, encoding_format: 'float' });
  check(floats.data.every((d, i) => same(d.embedding, byDefault.data[i].embedding)), 'float equals base64');
  const packed = await c.embeddings.create({ model: facts.model, input, encoding_format: 'base64' });
  const bytes = Buffer.from(packed.data[0].embedding, 'base64');
  const values = Array.from({ length: facts.width }, (_, i) => bytes.readFloatLE(4 * i));
  check(bytes.length === 4 * facts.width && same(values, floats.data[0].embedding), 'explicit base64');
  const one = await c.embeddings.create({ model: facts.model, input: [1, 2, 3] });
  check(one.data.length === 1 && same(one.data[0].embedding, floats.data[0].embedding), 'one list of ids');
  check(byDefault.usage.prompt_tokens === 5 && byDefault.usage.total_tokens === 5, 'usage');
  const cut = await c.embeddings.create({ model: facts.model, input, dimensions: 8 });
  check(cut.data[0].embedding.length === 8, 'dimensions');
  if (facts.texts) {
    const texts = await c.embeddings.create({ model: facts.model, input: ['a text', 'another text'] });
    const text = await c.embeddings.create({ model: facts.model, input: 'a text' });
    check(same(texts.data[0].embedding, text.data[0].embedding), 'one text and a list');
  }
}

async function models(c) {
  const ids = [];
  for await (const m of c.models.list()) ids.push(m.id);
  check(ids.includes(facts.model), 'models.list', `${ids}`);
  check((await c.models.retrieve(facts.model)).id === facts.model, 'models.retrieve');
}

async function expectError(name, kind, status, code, call) {
  try {
    await call();
    check(false, name, 'no error');
  } catch (e) {
    const ok = e instanceof kind && e.status === status && e.code === code && e.type && e.requestID;
    check(ok && !/no body/.test(e.message), name, `${e.constructor.name} ${e.status} ${e.code} ${e.message}`);
  }
}

async function errors(c) {
  const create = (input, more = {}) => () => c.embeddings.create({ model: facts.model, input, ...more });
  const bad = OpenAI.BadRequestError;
  await expectError('empty text', bad, 400, 'empty_input', create(''));
  await expectError('id out of range', bad, 400, 'token_out_of_range', create([facts.vocab]));
  await expectError('too long', bad, 400, 'context_length_exceeded', create(new Array(facts.positions + 1).fill(1)));
  await expectError('unknown model', OpenAI.NotFoundError, 404, 'model_not_found', create([1], { model: 'nothing' }));
  await expectError('models.retrieve of an unknown model', OpenAI.NotFoundError, 404, 'model_not_found',
    () => c.models.retrieve('nothing'));
}

async function retries(url) {
  const input = new Array(16).fill(new Array(Math.min(facts.positions, 128)).fill(1));
  const ask = (c) => c.embeddings.create({ model: facts.model, input });
  const once = await Promise.allSettled(Array.from({ length: 8 }, () => ask(client(url))));
  const refused = once.filter((r) => r.status === 'rejected').map((r) => r.reason);
  check(refused.length > 0 && refused.every((e) => e instanceof OpenAI.RateLimitError && e.code === 'overloaded'),
    '429 is a RateLimitError', refused.map((e) => `${e}`).join(' '));
  const again = await Promise.allSettled(Array.from({ length: 8 }, () => ask(client(url, { maxRetries: 20 }))));
  check(again.every((r) => r.status === 'fulfilled'), '429 is retried until served',
    again.map((r) => `${r.reason || ''}`).join(' '));
}

async function main() {
  const c = client(process.env.LAMINA_URL);
  await embeddings(c);
  await models(c);
  await errors(c);
  await retries(process.env.LAMINA_BUSY);
  console.log('end');
}

main().catch((e) => {
  console.log(`FAIL openai for Node: ${e.stack}`);
  process.exit(1);
});
