// Shared by the JavaScript adapters, as protocol.py is by the Python ones: arguments, commands on
// stdin, one JSON event per line on stdout.
'use strict';

const fs = require('fs');
const readline = require('readline');

const CHUNK = 100; // records that a producer sends before it waits for their acknowledgements
const PADDING = 'x'.repeat(100);

const [mode, bootstrap, topic, group, option, sessionMs] = process.argv.slice(2);
const committed = new Map(); // for each partition, the offset in the last event
let isCommitted = () => {};
// The address and the settings of a connection. `connect` changes them.
const place = { bootstrap, topic, group };

// Runs the mode that the arguments name: `consume` until its promise resolves, or verbs.
function main({ consume, verbs, reconnect, close }) {
  const done = mode === 'consume'
    ? consume(option, leaving()).then(() => emit('left', {}))
    : control({ consume, verbs, reconnect }).then(close);
  done.then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

// Resolves at the first line on stdin, or at its end.
function leaving() {
  return new Promise((resolve) => {
    readline.createInterface({ input: process.stdin }).once('line', resolve).once('close', resolve);
  });
}

async function control({ consume, verbs, reconnect }) {
  emit('ready', {});
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(' ');
    if (verb === 'connect') await connect(reconnect, words);
    else if (verb === 'read') await read(consume, words);
    else if (verb === 'be_refused') await beRefused(verbs.create);
    else await verbs[verb](...words.map(Number));
  }
}

async function connect(reconnect, words) {
  for (const key of Object.keys(place)) delete place[key];
  Object.assign(place, Object.fromEntries(words.map((word) => word.split(/=(.*)/s))));
  await reconnect();
  emit('connected', {});
}

// Consumes until the sum of the committed offsets reaches a number.
async function read(consume, [assignor, count]) {
  committed.clear();
  await consume(assignor, new Promise((resolve) => {
    isCommitted = () => {
      if ([...committed.values()].reduce((a, b) => a + b, 0) >= Number(count)) resolve();
    };
  }));
  emit('left', {});
}

async function beRefused(create) {
  try {
    await create(1);
  } catch (error) {
    emit('refused', { error: describe(error) });
  }
}

// The message of an error, with those of its causes.
function describe(error) {
  const causes = [error.cause, ...(error.errors || [])].filter(Boolean).map(describe);
  return [`${error.name}: ${error.message}`, ...causes].join('; ');
}

// The TLS options of a connection, in Node's form.
function tls() {
  const read = (path) => path && fs.readFileSync(path, 'utf8');
  const { ca, certificate, key } = place;
  return ca && { ca: [read(ca)], cert: read(certificate), key: read(key) };
}

function token() {
  return fs.readFileSync(place.token, 'utf8').trim();
}

// The ids of `produce first count`, cut into chunks.
function* chunks(first, count) {
  const end = first + count;
  for (let start = first; start < end; start += CHUNK) {
    const length = Math.min(CHUNK, end - start);
    yield Array.from({ length }, (_, i) => start + i);
  }
}

function valueOf(id) {
  return `${id} ${PADDING}`;
}

// Prints records. A record that differs from what was written ends the adapter.
function emitRecords(event, messages) {
  const records = messages.map(({ key, value, partition, offset }) => {
    const id = Number(key);
    if (`${value}` !== valueOf(id)) throw new Error(`record ${id} came back as ${value}`);
    return [id, partition, Number(offset)];
  });
  emit(event, { records });
}

// `firstOffsets` has the first offset of each partition's batch. The ids of a batch are in the
// order in which they were sent.
function emitAcked(messages, firstOffsets) {
  const next = new Map(firstOffsets);
  const records = messages.map(({ key, partition }) => {
    const offset = next.get(partition);
    next.set(partition, offset + 1);
    return [Number(key), partition, offset];
  });
  emit('acked', { records });
}

function emit(event, fields) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
  if (event === 'committed') {
    Object.entries(fields.offsets).forEach(([partition, offset]) => committed.set(partition, offset));
    isCommitted();
  }
}

module.exports = {
  place, option, sessionMs: Number(sessionMs),
  main, chunks, valueOf, emitRecords, emitAcked, emit, tls, token,
};
