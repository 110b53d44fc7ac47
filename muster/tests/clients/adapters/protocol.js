// What the JavaScript adapters share, as protocol.py is for the Python ones: arguments, commands on
// stdin, one JSON event a line on stdout.
'use strict';

const readline = require('readline');

const CHUNK = 100; // records that a producer sends before it waits for their acknowledgements
const PADDING = 'x'.repeat(100);

const [mode, bootstrap, topic, group, option, sessionMs] = process.argv.slice(2);

// Runs the mode named by the arguments: `consume` until the promise that it gets is kept, or verbs.
function main({ consume, verbs, close }) {
  const done = mode === 'consume'
    ? consume(leaving()).then(() => emit('left', {}))
    : control(verbs).then(close);
  done.then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

// Kept at the first line on stdin, or at its end.
function leaving() {
  return new Promise((resolve) => {
    readline.createInterface({ input: process.stdin }).once('line', resolve).once('close', resolve);
  });
}

async function control(verbs) {
  emit('ready', {});
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...numbers] = line.split(' ');
    await verbs[verb](...numbers.map(Number));
  }
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

// A record that is not as it was written ends the adapter.
function emitRecords(event, messages) {
  const records = messages.map(({ key, value, partition, offset }) => {
    const id = Number(key);
    if (`${value}` !== valueOf(id)) throw new Error(`record ${id} came back as ${value}`);
    return [id, partition, Number(offset)];
  });
  emit(event, { records });
}

// The answers have pairs of a partition and its batch's first offset; ids are in it in order sent.
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
}

module.exports = {
  bootstrap, topic, group, option, sessionMs: Number(sessionMs),
  main, chunks, valueOf, emitRecords, emitAcked, emit,
};
